#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "detent/core/error_of_for_test.h"
#include "detent/hardware/design.h"
#include "detent/hardware/networks_for_test.h"
#include "detent/hardware/verilog.h"

namespace detent {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(CircuitErrors, AreSaidAllAtOnce) {
  GraphBuilder builder("wide");
  NodeInput x = builder.linear("fc1", builder.input("x", {4}), 4, 4);
  x = builder.batch_norm("batch_norm1d", "norm", x, 4);
  x = builder.linear("fc2", x, 4, 2);
  Graph graph = builder.finish(builder.call("softmax", {x}, {{"dim", 1}}));
  quantize_for_test(graph, "fixed:width=6,frac_width=3", "fixed:width=5,frac_width=3");
  graph.node("fc2").quantization["data_in_0"] = parse_quant_spec_text("minifloat_ieee:width=8");
  EXPECT_THAT(
      error_of([&] { make_circuit(graph); }),
      AllOf(HasSubstr("graph \"wide\" cannot be made hardware:"),
            HasSubstr("node \"norm\" (batch_norm1d): computes in float: fold it into its layer, by the pass "
                      "fuse_batch_norm"),
            HasSubstr("node \"fc2\" (linear): computes in float"), HasSubstr("node \"softmax\" (softmax)")));
}

TEST(CircuitErrors, SayWhySignsAreRefused) {
  Graph graph = linear_network_for_test();
  quantize_for_test(graph, "binary", "binary:scaling=per_channel");
  graph.node("fc2").quantization["data_in_0"] =
      parse_quant_spec_text("binary_residual:levels=3,gamma=1x0.7x0.2");
  EXPECT_THAT(
      error_of([&] { make_circuit(graph); }),
      AllOf(HasSubstr("node \"fc1\" (linear): computes in float: its input has 2 values, which are no "
                      "codes of an affine format, so that its weights have to be multiples of one step"),
            HasSubstr("node \"fc2\" (linear): computes in float: the 8 values of its input are no "
                      "multiples of the least of them: the passes lutnet (inputs = 1, prune = 0)")));
}

/// Six inputs of three bits, which as tables of the network are 8^6 entries.
TEST(CircuitErrors, TablesAreBounded) {
  constexpr int64_t kEntries = int64_t{8} * 8 * 8 * 8 * 8 * 8;
  Graph graph("wide");
  graph.add_input("x", {1, 6});
  std::vector<float> values(8);
  std::iota(values.begin(), values.end(), 0.0F);
  Tensor inputs(DType::kInt64, {1, 1, 6});
  const auto places = inputs.values<int64_t>();
  std::iota(places.begin(), places.end(), int64_t{0});
  graph.add({.name = "lut",
             .op = "lut",
             .mase_type = MaseType::kModuleRelatedFunc,
             .inputs = {NodeInput::of("x")},
             .parameters = {{"inputs", Parameter{inputs, false}},
                            {"tables", Parameter{Tensor(DType::kInt32, {1, 1, kEntries}), false}},
                            {"input_values", Parameter{Tensor::from<float>({8}, values), false}}}});
  graph.add(
      {.name = "output", .op = "output", .mase_type = MaseType::kOutput, .inputs = {NodeInput::of("lut")}});
  EXPECT_THAT(
      error_of([&] { make_circuit(graph); }),
      HasSubstr("node \"lut\" (lut): 6 inputs of 3 bits make tables of 2^18 entries, expected at most 16 "
                "bits"));
}

TEST(CircuitErrors, SumsOfTwoValuesNeedPowersOfTwo) {
  GraphBuilder builder("residual");
  const NodeInput x = builder.input("x", {4});
  const NodeInput sum = builder.call("add", {builder.linear("fc1", x, 4, 4), x});
  Graph graph = builder.finish(builder.linear("fc2", sum, 4, 2));
  quantize_for_test(graph, "affine:scale=0.25,zero_point=0", "fixed:width=5,frac_width=3");
  Node& add = graph.node("add");
  add.quantization["data_in_0"] = parse_quant_spec_text("affine:scale=0.25,zero_point=0");
  add.quantization["data_in_1"] = parse_quant_spec_text("affine:scale=0.125,zero_point=0");
  add.quantization["data_out_0"] = parse_quant_spec_text("affine:scale=0.25,zero_point=0");
  EXPECT_EQ(error_of([&] { make_circuit(graph); }), "");
  graph.set_requantization(Requantization::kFixedPoint);
  EXPECT_THAT(error_of([&] { make_circuit(graph); }),
              HasSubstr("node \"add\" (add): it requantizes by integers and shifts, expected "
                        "requantization = \"float\""));
  graph.set_requantization(Requantization::kFloat);
  add.quantization["data_in_1"] = parse_quant_spec_text("affine:scale=0.1,zero_point=0");
  EXPECT_THAT(
      error_of([&] { make_circuit(graph); }),
      HasSubstr("node \"add\" (add): its inputs have the scales 0.25 and 0.1, expected powers of two"));
}

TEST(CircuitErrors, LatencyIsBounded) {
  Graph graph = linear_network_for_test();
  quantize_for_test(graph, "fixed:width=6,frac_width=3", "fixed:width=5,frac_width=3");
  EXPECT_THAT(
      error_of([&] { make_circuit(graph, {.latency = 9}); }),
      HasSubstr("latency: got 9 clock cycles, expected 0 (no registers) to 4, one after each of the layers"));
}

TEST(VerilogNames, AreIdentifiersAndDiffer) {
  VerilogNames names;
  EXPECT_EQ(names.unique("wire"), "wire_");
  EXPECT_EQ(names.unique("layer.0"), "layer_0");
  EXPECT_EQ(names.unique("layer_0"), "layer_0_1");
  EXPECT_EQ(names.unique("0"), "n0");
  EXPECT_FALSE(is_verilog_identifier("always"));
  EXPECT_FALSE(is_verilog_identifier("a-b"));
  EXPECT_TRUE(is_verilog_identifier("fc1"));
}

TEST(VerilogNames, KeywordsAsNodesAreRenamed) {
  GraphBuilder builder("module");
  Graph graph = builder.finish(builder.linear("wire", builder.input("reg", {2}), 2, 2));
  quantize_for_test(graph, "fixed:width=4,frac_width=2", "fixed:width=4,frac_width=2");
  const std::string text = top_verilog(make_circuit(graph));
  EXPECT_THAT(text, AllOf(HasSubstr("module module_ ("), HasSubstr(" reg_"),
                          HasSubstr("module__wire wire_$layer (")));
}

TEST(Tools, SayWhatToInstall) {
  const std::string path = std::getenv("PATH");
  setenv("PATH", "/nowhere", 1);
  EXPECT_THAT(why_no_simulator(Simulator::kVerilator),
              HasSubstr("no program \"verilator\" is installed: on Debian"));
  EXPECT_THAT(why_no_simulator(Simulator::kIcarus), HasSubstr("apt-get install iverilog"));
  EXPECT_THAT(error_of([] { synthesize("."); }), HasSubstr("apt-get install yosys"));
  setenv("PATH", path.c_str(), 1);
}

}  // namespace
}  // namespace detent

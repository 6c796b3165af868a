#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/error_of_for_test.h"
#include "detent/hardware/circuit_builder.h"
#include "detent/hardware/networks_for_test.h"
#include "detent/hardware/tools.h"
#include "detent/hardware/verilog.h"
#include "detent/hardware/verilog_names.h"

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

TEST(CircuitErrors, LatencyIsBounded) {
  Graph graph = linear_network_for_test();
  quantize_for_test(graph, "fixed:width=6,frac_width=3", "fixed:width=5,frac_width=3");
  EXPECT_THAT(
      error_of([&] { make_circuit(graph, {.latency = 9}); }),
      HasSubstr(
          "latency: got 9 clock cycles, expected 0 (no registers) to 4, one behind each of the layers"));
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

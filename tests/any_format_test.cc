// Every number format on both sides of every product: what static_quantize makes of it is executed to the
// same bits by the plain reference and the engine, stored and read again.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "detent/engine/compared_executions_for_test.h"
#include "detent/files/temporary_file_test.h"
#include "detent/formats/format.h"
#include "detent/formats/groups/calibrating.h"
#include "detent/graph/builder.h"
#include "detent/graph/traits.h"
#include "detent/graph_files/graph_file.h"
#include "detent/passes/pass_bench_for_test.h"

namespace detent {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

/// Convolutions, grouped and not, a residual, a product of two inputs, and a linear layer.
Graph network_of_products() {
  GraphBuilder b("products");
  NodeInput x = b.convolution("first", b.input("x", {3, 6, 6}), 3, 16, {3, 3}, {}, true);
  NodeInput y = b.call("relu", {x});
  y = b.convolution("grouped", y, 16, 16, {1, 1}, {{"groups", int64_t{2}}}, true);
  x = b.call("add", {x, y});
  const NodeInput rows = b.call("flatten", {x}, {{"start_dim", int64_t{2}}});
  const NodeInput columns = b.call("transpose", {rows}, {{"dim0", int64_t{1}}, {"dim1", int64_t{2}}});
  const NodeInput scores = b.call("matmul", {rows, columns});
  return b.finish(b.linear("fc", b.call("flatten", {scores}, {{"start_dim", int64_t{1}}}), 256, 10, true));
}

std::string quantize_text(const std::string& weights, const std::string& activations) {
  return fmt::format(
      "[passes.static_quantize]\nreport = false\nnum_samples = 8\nweights = \"{}\"\nactivations = \"{}\"\n",
      weights, activations);
}

std::vector<float> results(const Graph& graph, const Tensor& inputs) {
  const Tensor result = FastProgram(graph).run(std::span(&inputs, 1)).front();
  return {result.values<float>().begin(), result.values<float>().end()};
}

/// Quantizes, compares, stores and compares again.
void expect_one_truth(const std::string& weights, const std::string& activations) {
  SCOPED_TRACE(weights + " x " + activations);
  PassBench bench(network_of_products());
  ASSERT_NO_THROW(bench.run_passes(quantize_text(weights, activations)));
  const Tensor inputs = RandomSamples(bench.sample_shape()).samples(0, 4);
  const Comparison comparison = compare_executions(bench.graph, inputs);
  EXPECT_THAT(comparison.disagreements, IsEmpty());
  EXPECT_GE(comparison.operands, 10U);
  for (const Node& node : bench.graph.nodes()) {
    const bool is_matrix_product = node.op == "matmul";
    if (is_weighted_sum(node)) {
      EXPECT_NE(node.find_quantization("weight"), nullptr) << node.name;
    }
    if (is_weighted_sum(node) || is_matrix_product) {
      EXPECT_NE(node.find_quantization("data_in_0"), nullptr) << node.name;
    }
    if (is_matrix_product) {
      EXPECT_NE(node.find_quantization("data_in_1"), nullptr) << node.name;
    }
  }
  const TemporaryPath file("any_format.mz");
  write_packed_graph(file.get(), bench.graph);
  EXPECT_EQ(results(read_graph(file.get()), inputs), results(bench.graph, inputs));
}

TEST(AnyFormat, OnBothSides) {
  for (const std::string& name : format_names()) {
    if (name == "codebook") continue;  // has no values of its own
    expect_one_truth(name.starts_with("uint") ? "int8" : name, name);
  }
  expect_one_truth("codebook:values=-1x-0.2x0x0.2x1", "codebook:values=-2x0x0.5x2");
}

TEST(AnyFormat, BesideIntegers) {
  for (const char* name : {"nvfp4", "fp8_e4m3fn", "log:width=4", "ternary", "int4_g64", "block_fp:width=6"}) {
    expect_one_truth(name, "uint8");
    expect_one_truth("int4", name);
  }
}

/// SQNR of a network's outputs, in dB.
double sqnr(const std::string& weights, const std::string& activations, const std::string& more = "") {
  PassBench bench(network_of_products());
  const std::vector<float> before = bench.outputs(bench.graph);
  bench.run_passes(quantize_text(weights, activations) + more);
  const std::vector<float> after = bench.outputs(bench.graph);
  double signal = 0;
  double noise = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    signal += std::pow(static_cast<double>(before[i]), 2);
    noise += std::pow(static_cast<double>(before[i]) - static_cast<double>(after[i]), 2);
  }
  return 10 * std::log10(signal / noise);
}

/// Casts alone would leave most of these weights and activations below the smallest values of the formats.
TEST(AnyFormat, FewValuesGetAScale) {
  EXPECT_GT(sqnr("fp8_e4m3fn", "fp8_e4m3fn"), 20);
  EXPECT_GT(sqnr("fp6_e2m3", "fp6_e2m3"), 18);
  EXPECT_GT(sqnr("fp4_e2m1", "int8"), 8);
  PassBench bench(network_of_products());
  bench.run_passes(quantize_text("fp8_e4m3fn", "fp8_e5m2"));
  const Node& fc = bench.graph.node("fc");
  EXPECT_THAT(quant_spec_text(fc.quantization.at("weight")->spec), HasSubstr("granularity=channel"));
  EXPECT_THAT(quant_spec_text(fc.quantization.at("data_in_0")->spec),
              HasSubstr("scaled:element=fp8_e5m2,scale="));
}

/// Values that are fitted lose less than as many at equal distances.
TEST(AnyFormat, CodebooksAreFitted) {
  EXPECT_GT(sqnr("codebook16", "int8"), sqnr("int4", "int8", "weight_granularity = \"tensor\"\n"));
  EXPECT_GT(sqnr("codebook64", "codebook64"), 20);
}

TEST(AnyFormat, NodesByName) {
  PassBench bench(network_of_products());
  bench.run_passes(quantize_text("int8", "uint8") +
                   "formats = \"fc=fp8_e4m3fn,first=log:width=4/fp8_e5m2\"\nbits = \"grouped=4,fc=2\"\n");
  const auto text = [&](const char* node, const char* operand) {
    return quant_spec_text(bench.graph.node(node).quantization.at(operand)->spec);
  };
  EXPECT_THAT(text("fc", "weight"), HasSubstr("scaled:"));
  EXPECT_THAT(text("fc", "data_in_0"), HasSubstr("affine:"));
  EXPECT_THAT(text("first", "weight"), HasSubstr("log:width=4"));
  EXPECT_THAT(text("first", "data_in_0"), HasSubstr("element=fp8_e5m2"));
  EXPECT_THAT(text("grouped", "weight"), HasSubstr("width=4"));
}

TEST(AnyFormat, RefusalsNameKeyAndNearest) {
  PassBench bench(network_of_products());
  const auto refusal = [&](const std::string& options) {
    return bench.error_of("[passes.static_quantize]\nnum_samples = 4\n" + options);
  };
  EXPECT_THAT(refusal("weights = \"nvfp\""), AllOf(HasSubstr("key \"weights\""), HasSubstr("nvfp4")));
  EXPECT_THAT(refusal("activations = \"mx:block_axis=0\""), HasSubstr("without block_axis"));
  EXPECT_THAT(refusal("weights = \"nvfp4\"\nrequantization = \"fixed_point\""),
              HasSubstr("only sums of integers are scaled so"));
  EXPECT_THAT(refusal("formats = \"zz=nvfp4\""),
              AllOf(HasSubstr("key \"formats\""), HasSubstr("matches no node")));
  EXPECT_THAT(refusal("formats = \"fc=nvfp5\""), AllOf(HasSubstr("key \"formats\""), HasSubstr("nvfp4")));
  EXPECT_THAT(refusal("formats = \"add=nvfp4\""), HasSubstr("has none"));
}

}  // namespace
}  // namespace detent

#include <algorithm>
#include <cmath>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/graph/builder.h"
#include "detent/inference/integer_executor.h"
#include "detent/passes/pass_bench_for_test.h"
#include "detent/passes/post_training/rotation.h"

namespace detent {
namespace {

using testing::AllOf;
using testing::HasSubstr;

NodeInput list(List values) { return NodeInput::of_constant(Value(std::move(values))); }

/// Self-attention of two heads with 32 features each.
Graph attention() {
  GraphBuilder b("attention");
  const NodeInput x =
      b.layer("layer_norm", "norm", {b.input("x", {6, 64})}, {{"weight", {64}}, {"bias", {64}}},
              Table{{"normalized_shape", List{Value(64)}}});
  const Table order{{"dims", List{Value(0), Value(2), Value(1), Value(3)}}};
  const auto heads = [&](const char* name) {
    const NodeInput y = b.linear(name, x, 64, 64);
    return b.call("permute", {b.call("dynamic_reshape", {y, list({0, 0, 2, 32})})}, order);
  };
  const NodeInput query = heads("query");
  const NodeInput key = b.call("transpose", {heads("key")}, Table{{"dim0", -1}, {"dim1", -2}});
  const NodeInput shares = b.call("softmax", {b.call("matmul", {query, key})}, Table{{"dim", -1}});
  const NodeInput values = b.call("permute", {b.call("matmul", {shares, heads("value")})}, order);
  return b.finish(b.linear("project", b.call("dynamic_reshape", {values, list({0, 0, 64})}), 64, 20));
}

size_t nodes_with(const Graph& graph, const std::string& text) {
  return static_cast<size_t>(std::ranges::count_if(
      graph.nodes(), [&](const Node& node) { return node.name.find(text) != std::string::npos; }));
}

TEST(HadamardBlocks, AreProductsWithTheMatrix) {
  for (const int64_t block : {2, 4, 32}) {
    const Tensor h = hadamard_matrix(block);
    PassBench bench(attention());
    const Tensor& weight = bench.graph.node("query").find_parameter("weight")->tensor;
    const Tensor inputs = with_rotated_inputs(weight, block);
    const Tensor outputs = with_rotated_outputs(weight, block);
    const auto at = [](const Tensor& matrix, int64_t r, int64_t c) {
      return static_cast<double>(matrix.values<float>()[static_cast<size_t>(r * matrix.dim(1) + c)]);
    };
    for (int64_t r = 0; r < 64; r += 7) {
      for (int64_t c = 0; c < 64; ++c) {
        double of_inputs = 0;
        double of_outputs = 0;
        for (int64_t k = 0; k < block; ++k) {
          of_inputs += at(weight, r, c / block * block + k) * at(h, k, c % block);
          of_outputs += at(h, r % block, k) * at(weight, r / block * block + k, c);
        }
        EXPECT_NEAR(at(inputs, r, c), of_inputs, 1e-6);
        EXPECT_NEAR(at(outputs, r, c), of_outputs, 1e-6);
      }
    }
    EXPECT_EQ(at(h, 1, 1), -at(h, 0, 0));
    EXPECT_NEAR(at(with_rotated_inputs(h, block), 1, 1), 1, 1e-6) << "H H is the identity";
  }
}

TEST(Hadamard, KeepsWhatTheNetworkComputesAndSharesOrFoldsRotations) {
  PassBench bench(attention());
  const Graph before = bench.graph.deep_copy();
  bench.run_passes("[passes.hadamard]");
  expect_close(bench.outputs(before), bench.outputs(bench.graph));
  EXPECT_EQ(nodes_with(bench.graph, "_rotated"), 1U) << "of all that read the norm";
  EXPECT_THAT(bench.reported, AllOf(HasSubstr("| query, key, value "), HasSubstr("| new nodes")));
  EXPECT_THAT(bench.reported, testing::ContainsRegex("\\| project +\\| +2 \\| value "));
  for (const char* node : {"query", "key", "value", "project"}) {
    EXPECT_FALSE(bench.graph.node(node).find_parameter("weight")->tensor.equals(
        before.node(node).find_parameter("weight")->tensor));
  }
}

TEST(Hadamard, RotatesByNodesWhereBlocksAreCutOrOthersRead) {
  PassBench cut(attention());
  const Graph before = cut.graph.deep_copy();
  cut.run_passes("[passes.hadamard]\nblock_size = 64");  // two heads
  expect_close(cut.outputs(before), cut.outputs(cut.graph));
  EXPECT_EQ(nodes_with(cut.graph, "_rotated"), 2U);
  EXPECT_EQ(nodes_with(cut.graph, "_joined"), 0U) << "a single block needs no other shape";

  GraphBuilder b("read_twice");
  const NodeInput x = b.linear("first", b.input("x", {32}), 32, 32);
  PassBench read_twice(b.finish(b.call("add", {x, b.linear("second", x, 32, 32)})));
  const Graph plain = read_twice.graph.deep_copy();
  read_twice.run_passes("[passes.hadamard]\nnodes = [\"second\"]\n");
  expect_close(read_twice.outputs(plain), read_twice.outputs(read_twice.graph));
  EXPECT_EQ(nodes_with(read_twice.graph, "_rotated"), 1U);
}

std::string formats(const std::string& both) {
  return "[passes.static_quantize]\nreport = false\nweights = \"" + both + "\"\nactivations = \"" + both +
         "\"\n";
}

double squared_error(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i)
    sum += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
  return sum;
}

TEST(Hadamard, LowersTheErrorOfOutliersAndComposesWithGptq) {
  GraphBuilder b("outliers");
  NodeInput x = b.layer("layer_norm", "norm", {b.input("x", {64})}, {{"weight", {64}}, {"bias", {64}}},
                        Table{{"normalized_shape", List{Value(64)}}});
  PassBench bench(b.finish(b.linear("fc", x, 64, 48)));
  for (const size_t outlier : {3U, 40U})
    bench.graph.node("norm").find_parameter("weight")->tensor.values<float>()[outlier] = 30;
  const Graph network = bench.graph.deep_copy();
  const std::vector<float> exact = bench.outputs(network);
  for (const char* format : {"mx_e2m1", "int4_g32"}) {
    const auto error = [&](const std::string& before, const std::string& after) {
      bench.graph = network.deep_copy();
      bench.run_passes(fmt::format("{}{}{}", before, formats(format), after));
      const std::vector<float> result = bench.outputs(bench.graph);
      const Tensor inputs = RandomSamples(bench.sample_shape()).samples(0, 5);
      const Tensor by_reference = IntegerExecutor().run(bench.graph, std::span(&inputs, 1));
      EXPECT_TRUE(std::ranges::equal(by_reference.values<float>(), result)) << format;
      return squared_error(exact, result);
    };
    const double plain = error("", "");
    const double rotated = error("[passes.hadamard]\n", "");
    EXPECT_LT(rotated, 0.7 * plain) << format;
    EXPECT_LT(error("[passes.hadamard]\n", "[passes.gptq]\n"), rotated) << format;
  }
}

TEST(Hadamard, NamesLayersThatCannot) {
  GraphBuilder b("obstacles");
  NodeInput x = b.convolution("conv", b.input("x", {3, 8, 8}), 3, 8, {3, 3});
  x = b.linear("narrow", b.call("flatten", {x}, Table{{"start_dim", 2}}), 36, 32);
  x = b.linear("tied", x, 32, 32, false);
  x = b.tied_layer("linear", "again", {x}, "weight", x);
  PassBench bench(b.finish(b.linear("fc", x, 32, 10)));
  bench.run_passes("[passes.hadamard]");
  EXPECT_THAT(bench.reported,
              AllOf(HasSubstr("hadamard: conv: sums over windows"),
                    HasSubstr("hadamard: narrow: sums over 36 inputs, which blocks of 32 do not divide"),
                    HasSubstr("hadamard: tied: shares its weight with again")));
  EXPECT_THAT(bench.error_of("[passes.hadamard]\nnodes = [\"narrow\"]\n"),
              HasSubstr("the input of narrow: sums over 36 inputs"));
  EXPECT_THAT(bench.error_of("[passes.hadamard]\nblock_size = 64\n"), HasSubstr("no layer's input"));
  EXPECT_THAT(bench.error_of("[passes.hadamard]\nblock_size = 48\n"), HasSubstr("expected a power of two"));
  EXPECT_THAT(bench.error_of("[passes.hadamard]\nnodes = [\"fd\"]\n"), HasSubstr("fc"));
}

TEST(Hadamard, TakesTheBlocksOfTheFormats) {
  const auto block = [](const char* weights, const char* activations) {
    StaticQuantizeOptions options;
    options.weights = OperandFormat::parse(weights, "here");
    options.activations = OperandFormat::parse(activations, "here");
    Table passes{{"hadamard", Table()}};
    fit_rotated_blocks(passes, options);
    const Value* found = passes.table("hadamard").find("block_size");
    return found == nullptr ? 0 : *found->get_if<int64_t>();
  };
  EXPECT_EQ(block("mx_e2m1", "nvfp4"), 16);
  EXPECT_EQ(block("int4_g64", "int8"), 64);
  EXPECT_EQ(block("int4_g48", "int8"), 0);
  EXPECT_EQ(block("int4", "uint8"), 0);
}

}  // namespace
}  // namespace detent

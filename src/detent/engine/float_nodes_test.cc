#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include <fmt/format.h>

#include "detent/core/parallel.h"
#include "detent/engine/fast_executor.h"
#include "detent/formats/kernel_environment.h"
#include "detent/graph/builder.h"
#include "detent/inference/integer_executor.h"
#include "detent/inference/plan.h"
#include "detent/models/model.h"

#include "detent/passes/pass_bench_for_test.h"

// Nodes in float between codes: the reference and the engine give the same bits, on every instruction set.

namespace detent {
namespace {

std::vector<std::string> in_float(const Graph& graph) {
  std::vector<std::string> ops;
  for (const PlannedNode& node : integer_plan(graph))
    if (node.engine == NodeEngine::kFloat) ops.push_back(node.op);
  return ops;
}

void expect_same_results(const std::vector<Tensor>& results, const std::vector<Tensor>& expected,
                         std::string_view by) {
  ASSERT_EQ(results.size(), expected.size());
  for (size_t i = 0; i < results.size(); ++i) EXPECT_TRUE(results[i].equals(expected[i])) << by << " " << i;
}

void expect_one_result(const Graph& graph, const Tensor& input) {
  const std::span<const Tensor> inputs(&input, 1);
  const int threads = thread_count();
  const std::vector<Tensor> expected = IntegerProgram(graph).run(inputs);
  const FastProgram program(graph);
  for (const int count : {1, 3}) {
    set_thread_count(count);
    expect_same_results(program.run(inputs), expected, fmt::format("the engine, {} threads", count));
  }
  set_thread_count(threads);
  for (const std::string& target : simd_targets()) {
    set_simd_target(target, "test");
    expect_same_results(FastProgram(graph).run(inputs), expected, target);
    expect_same_results(IntegerProgram(graph).run(inputs), expected, "the reference, " + target);
  }
  set_simd_target(simd_targets().front(), "test");
}

TEST(FloatNodes, AVisionTransformerIsTheSameOnEveryTarget) {
  PassBench bench(build_model("vit_cifar", {3, 32, 32}, 10));
  bench.run_passes("[passes.static_quantize]\nnum_samples = 4\n");
  EXPECT_THAT(in_float(bench.graph), testing::IsSupersetOf({"softmax", "layer_norm"}));
  expect_one_result(bench.graph, RandomSamples(bench.sample_shape()).samples(3, 5));
}

/// Norms of channels, functions of elements, means and products around codes.
Graph mixed_network() {
  GraphBuilder b("mixed");
  NodeInput x = b.convolution("conv", b.input("x", {3, 9, 8}), 3, 12, {3, 3}, {{"padding", 1}});
  x = b.layer("group_norm", "groups", {x}, {{"weight", {12}}, {"bias", {12}}}, {{"num_groups", 3}});
  x = b.call("gelu", {x});
  x = b.layer("instance_norm2d", "instances", {x}, {});
  x = b.convolution("depthwise", x, 12, 12, {3, 3}, {{"groups", 12}});
  x = b.call("silu", {x});
  x = b.call("resize",
             {x, NodeInput::absent(), NodeInput::absent(), NodeInput::of_constant(List{Value(9), Value(13)})},
             {{"mode", "linear"}, {"dims", List{Value(2), Value(3)}}});
  x = b.call("avg_pool2d", {x}, {{"kernel_size", 2}});
  x = b.call("flatten", {x}, {{"start_dim", 2}});
  x = b.call("transpose", {x}, {{"dim0", 1}, {"dim1", 2}});
  const NodeInput rows = b.linear("rows", x, 12, 12);
  const NodeInput columns = b.call("transpose", {rows}, {{"dim0", 1}, {"dim1", 2}});
  const NodeInput shares = b.call("softmax", {b.call("matmul", {rows, columns})});
  x = b.call("matmul", {shares, rows});
  x = b.layer("rms_norm", "root", {x}, {{"weight", {12}}}, {{"normalized_shape", List{Value(12)}}});
  x = b.call("tanh", {x});
  const NodeInput pooled = b.call("mean", {x, NodeInput::of_constant(Value(1))});
  const NodeInput squared = b.call("pow", {pooled, NodeInput::of_constant(Value(2.0))});
  return b.finish({b.linear("last", b.call("sigmoid", {squared}), 12, 5), b.call("log_softmax", {pooled})});
}

TEST(FloatNodes, AreTheSameWhateverStaysInFloat) {
  for (const char* options : {"", "keep_float = [\"gelu.*\", \"silu.*\", \"tanh\", \"sigmoid\"]",
                              "keep_float = [\"conv\", \"matmul.*\", \"last\"]",
                              "weight_granularity = \"group\"\nweight_group_size = 4"}) {
    SCOPED_TRACE(options);
    PassBench bench(mixed_network());
    bench.run_passes(fmt::format("[passes.static_quantize]\nnum_samples = 8\n{}\n", options));
    expect_one_result(bench.graph, RandomSamples(bench.sample_shape()).samples(3, 6));
  }
}

TEST(FloatNodes, NetworksWithoutQuantizersAreTheSame) {
  for (const char* model : {"resnet20", "vit_cifar"}) {
    SCOPED_TRACE(model);
    PassBench bench(build_model(model, {3, 32, 32}, 10));
    expect_one_result(bench.graph, RandomSamples(bench.sample_shape()).samples(3, 4));
  }
  PassBench bench(mixed_network());
  expect_one_result(bench.graph, RandomSamples(bench.sample_shape()).samples(3, 6));
}

TEST(FloatNodes, CalibrationIsTheSameOnEveryTarget) {
  std::vector<std::string> texts;
  std::vector<Tensor> results;
  for (const std::string& target : simd_targets()) {
    set_simd_target(target, "test");
    PassBench bench(mixed_network());
    bench.run_passes("[passes.static_quantize]\nnum_samples = 8\n");
    const Tensor input = RandomSamples(bench.sample_shape()).samples(3, 6);
    set_simd_target(simd_targets().front(), "test");
    results.push_back(IntegerProgram(bench.graph).run({&input, 1}).front());
    std::string text;
    for (const Node& node : bench.graph.nodes()) {
      for (const auto& [operand, quantizer] : node.quantization)
        text += fmt::format("{} {} {}\n", node.name, operand, quant_spec_text(quantizer->spec));
    }
    texts.push_back(text);
  }
  for (size_t i = 1; i < texts.size(); ++i) {
    EXPECT_EQ(texts[i], texts[0]) << simd_targets()[i];
    EXPECT_TRUE(results[i].equals(results[0])) << simd_targets()[i];
  }
}

/// Both ways through steps, whose states the results join; then scores of each step with each other.
Graph recurrent_network() {
  constexpr int64_t kHidden = 20;
  GraphBuilder b("recurrent");
  const NodeInput x = b.input("x", {9, 12});
  const NodeInput states = b.call(
      "lstm",
      {x, b.parameter("input_weights", {2, 4 * kHidden, 12}),
       b.parameter("state_weights", {2, 4 * kHidden, kHidden}), b.parameter("biases", {2, 8 * kHidden})},
      {{"hidden_size", kHidden},
       {"batch_first", true},
       {"direction", "bidirectional"},
       {"activations", "sigmoid tanh tanh sigmoid tanh tanh"}});
  NodeInput last = states;
  last.result = 2;
  const NodeInput scores = b.call("einsum", {states, states}, {{"equation", "bsdh,btdh->bdst"}});
  return b.finish({states, last, b.call("softmax", {scores}, {{"dim", -1}})});
}

TEST(FloatNodes, ARecurrentNetworkIsTheSameOnEveryTarget) {
  Graph graph = recurrent_network();
  std::mt19937 generator(5);
  std::normal_distribution<float> normal;
  for (Node& node : graph.nodes()) {
    for (auto& [name, parameter] : node.parameters) {
      for (float& value : parameter->tensor.values<float>()) value = 0.3F * normal(generator);
    }
  }
  Tensor inputs(DType::kFloat32, {19, 9, 12});
  for (float& value : inputs.values<float>()) value = normal(generator);
  expect_one_result(graph, inputs);
}

}  // namespace
}  // namespace detent

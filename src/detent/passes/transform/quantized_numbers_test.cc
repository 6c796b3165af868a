#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "detent/engine/fast_executor.h"
#include "detent/formats/elements/affine.h"
#include "detent/graph/builder.h"
#include "detent/inference/integer_executor.h"
#include "detent/inference/node_form.h"
#include "detent/passes/analysis/layerwise_error.h"
#include "detent/passes/pass_bench_for_test.h"

// No network fails to be quantized for its numbers, and what is said of it is a number.

namespace detent {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kQuantizeNumbers = "[passes.static_quantize]\nnum_samples = 20\n";

std::span<float> parameter(Graph& graph, const std::string& node, const std::string& name) {
  return graph.node(node).find_parameter(name)->tensor.values<float>();
}

void fill_values(std::span<float> values, float value) { std::ranges::fill(values, value); }

/// Outputs of the simulation, the reference and the fast engine, which are the same bits.
std::vector<float> agreed_outputs(const PassBench& bench) {
  const Tensor inputs = RandomSamples(bench.sample_shape()).samples(0, 5);
  const Tensor simulated = FastExecutor().compile(bench.graph)->run(std::span(&inputs, 1)).front().clone();
  const Tensor reference = IntegerProgram(bench.graph).run(std::span(&inputs, 1)).front();
  const Tensor fast = FastProgram(bench.graph).run(std::span(&inputs, 1)).front();
  EXPECT_TRUE(std::ranges::equal(simulated.values<float>(), reference.values<float>()));
  EXPECT_TRUE(std::ranges::equal(simulated.values<float>(), fast.values<float>()));
  return {simulated.values<float>().begin(), simulated.values<float>().end()};
}

double sqnr_of(const std::vector<float>& expected, const std::vector<float>& actual) {
  Distortion distortion;
  const auto size = static_cast<int64_t>(expected.size());
  distortion.update(Tensor::from<float>({size}, expected), Tensor::from<float>({size}, actual));
  return distortion.sqnr_db();
}

/// A convolution of 6 channels, a transposed one in 2 groups of 3 and a linear layer.
Graph three_layers() {
  GraphBuilder builder("layers");
  NodeInput x = builder.convolution("conv", builder.input("x", {3, 5, 5}), 3, 6, {3, 3}, {{"padding", 1}});
  x = builder.call("relu", {x});
  x = builder.layer("convtranspose2d", "up", {x}, {{"weight", {6, 3, 2, 2}}, {"bias", {6}}}, {{"groups", 2}});
  x = builder.call("flatten", {x});
  return builder.finish(builder.linear("fc", x, int64_t{6} * 6 * 6, 4));
}

/// A channel of each layer, with those of other groups that share its weight scale, has weights of about 1e-9
/// beside a bias of 0.4.
void kill_channels(Graph& graph, int64_t dead) {
  for (const char* name : {"conv", "up", "fc"}) {
    const WeightChannels channels(graph.node(name));
    const auto is_dead = [&](int64_t output) { return channels.row(output) == channels.row(dead); };
    const auto weights = parameter(graph, name, "weight");
    for (size_t i = 0; i < weights.size(); ++i)
      if (is_dead(channels.output(static_cast<int64_t>(i)))) weights[i] *= 1e-9F;
    for (int64_t c = 0; c < channels.outputs(); ++c)
      if (is_dead(c)) parameter(graph, name, "bias")[static_cast<size_t>(c)] = 0.4F;
  }
}

TEST(QuantizedNumbers, NearlyDeadChannelsTakeTheStepsOfTheirBias) {
  constexpr size_t kDead = 3;
  for (const std::string options :
       {"", "requantization = \"fixed_point\"\n", "activations = \"int16\"\nelementwise = \"int16\"\n"}) {
    PassBench bench(three_layers());
    kill_channels(bench.graph, kDead);
    const std::vector<float> expected = bench.outputs(bench.graph);
    bench.run_passes(kQuantizeNumbers + options);
    EXPECT_THAT(bench.reported, HasSubstr("static_quantize: conv: 1 of 6 weight scales raised, the most "));
    EXPECT_THAT(bench.reported, HasSubstr("static_quantize: up: 1 of 3 weight scales raised, the most "));
    EXPECT_THAT(bench.reported, HasSubstr("static_quantize: fc: 1 of 4 weight scales raised, the most "));
    EXPECT_GT(sqnr_of(expected, agreed_outputs(bench)), 30) << options;
    for (const char* name : {"conv", "up", "fc"}) {
      const auto form = std::get<SumForm>(node_form(bench.graph.node(name), Requantization::kFloat).value());
      EXPECT_NEAR(std::abs(static_cast<double>(form.bias[kDead])), 0x1p30, 0x1p24) << name;
      EXPECT_NEAR(static_cast<double>(form.scale[kDead]) * form.bias[kDead], 0.4, 1e-6) << name;
    }
  }
}

/// One scale for all: raised, and no more than the bias asks for.
TEST(QuantizedNumbers, ATensorsScaleIsRaisedToo) {
  PassBench bench(three_layers());
  for (float& weight : parameter(bench.graph, "conv", "weight")) weight *= 1e-8F;
  fill_values(parameter(bench.graph, "conv", "bias"), -0.5F);
  bench.run_passes(std::string(kQuantizeNumbers) + "weight_granularity = \"tensor\"\n");
  EXPECT_THAT(bench.reported, HasSubstr("static_quantize: conv: 1 of 1 weight scales raised"));
  agreed_outputs(bench);
}

TEST(QuantizedNumbers, WhatFitsStaysAsItIs) {
  PassBench bench(three_layers());
  bench.run_passes(kQuantizeNumbers);
  EXPECT_THAT(bench.reported, Not(HasSubstr("raised")));
  for (const char* name : {"conv", "up", "fc"})
    EXPECT_EQ(raised_to_fit(bench.graph.node(name)), std::nullopt) << name;
}

/// 140,000 weights that are all the largest: their sums are beyond 32 bits by a twentieth.
TEST(QuantizedNumbers, LongSumsLoseWhatDoesNotFit) {
  GraphBuilder builder("long");
  PassBench bench(builder.finish(builder.linear("fc", builder.input("x", {140000}), 140000, 2)));
  fill_values(parameter(bench.graph, "fc", "weight"), 0.01F);
  const std::vector<float> expected = bench.outputs(bench.graph);
  bench.run_passes(kQuantizeNumbers);
  EXPECT_THAT(bench.reported, HasSubstr("static_quantize: fc: 2 of 2 weight scales raised, the most 1."));
  EXPECT_GT(sqnr_of(expected, agreed_outputs(bench)), 20);
}

TEST(QuantizedNumbers, SubnormalWeightsHaveSteps) {
  PassBench bench(three_layers());
  for (float& weight : parameter(bench.graph, "fc", "weight")) weight *= 1e-40F;
  bench.run_passes(kQuantizeNumbers);
  agreed_outputs(bench);
}

/// x w_q, x w_k and x w_v as one head of attention under a mask.
Graph masked_attention(const char* mask) {
  GraphBuilder builder("attention");
  const NodeInput x = builder.input("x", {6, 16});
  const NodeInput q = builder.linear("q", x, 16, 16);
  const NodeInput k =
      builder.call("transpose", {builder.linear("k", x, 16, 16)}, {{"dim0", -2}, {"dim1", -1}});
  NodeInput scores = builder.call("matmul", {q, k});
  scores = builder.call("add", {scores, builder.parameter(mask, {1, 6, 6})});
  const NodeInput shares = builder.call("softmax", {scores}, {{"dim", -1}});
  return builder.finish(
      builder.linear("o", builder.call("matmul", {shares, builder.linear("v", x, 16, 16)}), 16, 16));
}

TEST(QuantizedNumbers, MaskedScoresAreLeftInFloat) {
  for (const float value :
       {-std::numeric_limits<float>::infinity(), std::numeric_limits<float>::lowest(), -1e4F}) {
    PassBench bench(masked_attention("mask"));
    const auto mask = parameter(bench.graph, "mask", "value");
    for (size_t i = 0; i < mask.size(); ++i) mask[i] = i % 6 > i / 6 ? value : 0.0F;
    const std::vector<float> expected = bench.outputs(bench.graph);
    bench.run_passes(kQuantizeNumbers);
    EXPECT_THAT(bench.reported, HasSubstr("as they mask the scores of a softmax")) << value;
    EXPECT_TRUE(bench.graph.node("add").quantization.empty());
    EXPECT_GT(sqnr_of(expected, agreed_outputs(bench)), 25) << value;
  }
}

TEST(QuantizedNumbers, ScoresWithoutAMaskAreCodes) {
  PassBench bench(masked_attention("bias"));
  bench.run_passes(kQuantizeNumbers);
  EXPECT_THAT(bench.reported, Not(HasSubstr("mask the scores")));
  EXPECT_FALSE(bench.graph.node("add").quantization.empty());
}

TEST(QuantizedNumbers, InfinitiesElsewhereStayInFloatAndAreNamed) {
  GraphBuilder builder("g");
  NodeInput x = builder.linear("fc", builder.input("x", {4}), 4, 4);
  PassBench bench(builder.finish(builder.call("add", {x, builder.parameter("far", {4})})));
  parameter(bench.graph, "far", "value")[1] = -std::numeric_limits<float>::infinity();
  bench.run_passes(kQuantizeNumbers);
  EXPECT_THAT(bench.reported, HasSubstr("in float, as they read or give infinities: add\n"));
  EXPECT_FALSE(bench.graph.node("fc").quantization.empty());
}

/// The errors of the network that passes make of the one of the bench, against that.
LayerwiseErrors errors_after(PassBench& bench, const std::string& passes) {
  const Graph reference = bench.graph.deep_copy();
  bench.run_passes(passes);
  return analyze_layerwise_error(reference, bench.graph, 20, bench.context);
}

/// A network with one output value a sample has no classes.
TEST(QuantizedNumbers, OneOutputValueHasAnSqnr) {
  GraphBuilder builder("single");
  NodeInput x = builder.call("relu", {builder.linear("a", builder.input("x", {16}), 16, 8)});
  x = builder.call("sigmoid", {builder.linear("b", x, 8, 1)});
  PassBench bench(builder.finish(x));
  const LayerwiseErrors errors = errors_after(bench, kQuantizeNumbers);
  EXPECT_EQ(errors.measured_output, "outputs");
  EXPECT_GT(errors.output_sqnr_db, 20);
  EXPECT_LT(errors.output_sqnr_db, 80);
  EXPECT_TRUE(
      std::ranges::any_of(errors.nodes, [](const NodeError& node) { return *node.output_gain > 0.1; }));
  EXPECT_THAT(output_sqnr_text(errors), HasSubstr("the outputs have an SQNR of "));
}

/// The same number wherever the SQNR of the logits is told.
TEST(QuantizedNumbers, LogitsHaveOneSqnr) {
  GraphBuilder builder("classes");
  PassBench bench(builder.finish(builder.linear("fc", builder.input("x", {16}), 16, 5)));
  fill_values(parameter(bench.graph, "fc", "bias"), 30.0F);  // what all classes have in common is no signal
  const LayerwiseErrors errors = errors_after(bench, std::string(kQuantizeNumbers) + "weights = \"int4\"\n");
  ASSERT_EQ(errors.outputs.size(), 1U);
  EXPECT_EQ(errors.output_sqnr_db, errors.outputs[0].sqnr_db());
  EXPECT_NEAR(errors.outputs[0].error.sqnr_db(), errors.output_sqnr_db, 1e-4);
  EXPECT_NEAR(errors.nodes[0].together.sqnr_db(), errors.output_sqnr_db, 1e-4);
  EXPECT_LT(errors.output_sqnr_db, 40);
}

/// Sums of more products than 32 bits hold.
TEST(QuantizedNumbers, DeepProductsAreLeftInFloat) {
  GraphBuilder builder("deep");
  const NodeInput rows = builder.call("relu", {builder.linear("fc", builder.input("x", {40'000, 4}), 4, 2)});
  const NodeInput columns = builder.call("transpose", {rows}, {{"dim0", 1}, {"dim1", 2}});
  PassBench bench(builder.finish(builder.call("matmul", {columns, rows})));
  const std::vector<float> expected = bench.outputs(bench.graph);
  bench.run_passes(kQuantizeNumbers);
  EXPECT_TRUE(bench.graph.node("matmul").quantization.empty());
  EXPECT_NE(bench.graph.node("fc").find_quantization("weight"), nullptr);
  EXPECT_GT(sqnr_of(expected, agreed_outputs(bench)), 30);
}

TEST(QuantizedNumbers, OutputsOfDoublesHaveAnSqnrToo) {
  GraphBuilder builder("doubles");
  const NodeInput y = builder.linear("fc", builder.input("x", {16}), 16, 5);
  PassBench bench(builder.finish(builder.call("cast", {y}, {{"dtype", "float64"}})));
  const LayerwiseErrors errors = errors_after(bench, kQuantizeNumbers);
  EXPECT_EQ(errors.measured_output, "logits");
  EXPECT_GT(errors.output_sqnr_db, 20);
  EXPECT_LT(errors.output_sqnr_db, 80);
  EXPECT_EQ(errors.output_sqnr_db, errors.outputs.at(0).sqnr_db());
}

/// A slice without elements, joined with others.
TEST(QuantizedNumbers, WhatIsEmptyNeedsNoRange) {
  GraphBuilder builder("empty");
  const NodeInput x = builder.input("x", {5, 4});
  const auto list = [](int64_t number) { return NodeInput::of_constant(List{Value(number)}); };
  const NodeInput none = builder.call("dynamic_slice", {x, list(3), list(3), list(1)});  // start, end, axis
  const NodeInput joined = builder.call("cat", {none, x}, {{"dim", 1}});
  PassBench bench(builder.finish(builder.linear("fc", joined, 4, 3)));
  const std::vector<float> expected = bench.outputs(bench.graph);
  bench.run_passes(kQuantizeNumbers);
  EXPECT_GT(sqnr_of(expected, agreed_outputs(bench)), 30);
}

}  // namespace
}  // namespace detent

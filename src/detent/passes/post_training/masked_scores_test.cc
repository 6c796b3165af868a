#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "detent/graph/builder.h"
#include "detent/passes/pass_bench_for_test.h"

// Attention with masks, quantized: as exact as without.

namespace detent {
namespace {

using testing::HasSubstr;

constexpr float kLowestFloat = std::numeric_limits<float>::lowest();
constexpr int64_t kTokens = 6;
constexpr int64_t kWidth = 16;

enum class Mask { kNone, kConstant, kClamped, kGiven, kGivenBiased };

/// Scores of queries and keys, masked, and what a softmax of them takes of the values.
Graph masked_attention(Mask mask) {
  GraphBuilder b("attention");
  const NodeInput x = b.input("x", {kTokens, kWidth});
  const auto weight = [&](const char* name) { return b.linear(name, x, kWidth, kWidth, false); };
  const NodeInput keys = b.call("transpose", {weight("k")}, {{"dim0", 1}, {"dim1", 2}});
  NodeInput scores =
      b.call("mul", {b.call("matmul", {weight("q"), keys}), NodeInput::of_constant(Value(0.25))});
  const NodeInput low = NodeInput::of_constant(Value(-1e4));
  if (mask == Mask::kConstant || mask == Mask::kClamped)
    scores = b.call("add", {scores, b.parameter("mask", {kTokens, kTokens})});
  if (mask == Mask::kClamped)
    scores = b.call("maximum", {scores, NodeInput::of_constant(Value(static_cast<double>(kLowestFloat)))});
  if (mask == Mask::kGiven) {
    const NodeInput given = b.input("m", {1, kTokens});
    const NodeInput inverse = b.call("sub", {NodeInput::of_constant(Value(1.0)), given});
    scores = b.call("add", {scores, b.call("mul", {inverse, low})});
  }
  if (mask == Mask::kGivenBiased) {
    const NodeInput given = b.input("m", {1, kTokens});
    const NodeInput is_given = b.call("gt", {given, NodeInput::of_constant(Value(0.5))});
    scores = b.call("where", {is_given, scores, low});
    scores = b.call("add", {scores, b.parameter("bias", {kTokens, kTokens})});
  }
  const NodeInput weights = b.call("softmax", {scores}, {{"dim", -1}});
  const NodeInput mixed = b.call("matmul", {weights, weight("v")});
  return b.finish(b.linear("o", mixed, kWidth, kWidth, false));
}

/// Samples, and for each a mask of its first tokens, or of all.
class MaskedSamples final : public CalibrationSet {
 public:
  MaskedSamples(size_t inputs, bool masks) : inputs_(inputs), masks_(masks) {}
  int64_t size() const override { return 20; }
  std::vector<Tensor> inputs(int64_t begin, int64_t end) const override {
    std::vector<Tensor> result = {RandomSamples({1, kTokens, kWidth}).samples(begin, end)};
    if (inputs_ == 1) return result;
    Tensor mask(DType::kFloat32, {end - begin, 1, kTokens});
    for (int64_t i = 0; i < mask.numel(); ++i) {
      const int64_t length = 2 + (begin + i / kTokens) % (kTokens - 1);
      mask.values<float>()[static_cast<size_t>(i)] = masks_ && i % kTokens >= length ? 0.0F : 1.0F;
    }
    result.push_back(std::move(mask));
    return result;
  }
  uint64_t fingerprint() const override { return 1; }

 private:
  size_t inputs_;
  bool masks_;
};

/// SQNR of the quantized network's results on samples that are masked, in dB.
double sqnr(Mask mask, float value, bool calibrates_masked, std::string* reported = nullptr) {
  PassBench bench(masked_attention(mask));
  for (Node& node : bench.graph.nodes()) {
    const float factor = node.name == "q" || node.name == "k" ? 0.5F : 2.0F;
    for (auto& [name, parameter] : node.parameters) {
      const bool is_mask = node.target == "mask";
      const auto values = parameter->tensor.values<float>();
      for (size_t i = 0; i < values.size(); ++i) {
        const bool is_later = i % kTokens > i / kTokens;
        values[i] = is_mask ? (is_later ? value : 0.0F) : factor * values[i];
      }
    }
  }
  const size_t inputs = bench.graph.input_names().size();
  bench.context.open_calibration = [&] { return std::make_unique<MaskedSamples>(inputs, calibrates_masked); };
  const std::vector<Tensor> samples = MaskedSamples(inputs, true).inputs(0, 20);
  const Tensor expected = bench.executor.run(bench.graph, samples);
  bench.run_passes("[passes.static_quantize]\nreport = false\nnum_samples = 20\n");
  const Tensor actual = bench.executor.run(bench.graph, samples);
  if (reported != nullptr) *reported = bench.reported;
  double signal = 0;
  double noise = 0;
  for (size_t i = 0; i < expected.values<float>().size(); ++i) {
    const auto wanted = static_cast<double>(expected.values<float>()[i]);
    signal += wanted * wanted;
    noise += std::pow(wanted - static_cast<double>(actual.values<float>()[i]), 2);
  }
  return 10 * std::log10(signal / noise);
}

constexpr double kTolerance = 3;  // what differs between one network and the other

TEST(MaskedScores, ConstantMasksCostNoAccuracy) {
  const double unmasked = sqnr(Mask::kNone, 0, false);
  EXPECT_GT(unmasked, 25);
  for (const float value : {-std::numeric_limits<float>::infinity(), kLowestFloat, -1e4F, -100.0F, -30.0F}) {
    std::string reported;
    EXPECT_GT(sqnr(Mask::kConstant, value, false, &reported), unmasked - kTolerance) << value;
    EXPECT_THAT(reported, HasSubstr("in float, as they mask the scores of a softmax")) << value;
    EXPECT_GT(sqnr(Mask::kClamped, value, false), unmasked - kTolerance) << value;
  }
}

/// Biases of positions are of the size of scores: they are quantized as these.
TEST(MaskedScores, SmallBiasesAreQuantized) {
  std::string reported;
  EXPECT_GT(sqnr(Mask::kConstant, -1, false, &reported), 25);
  EXPECT_THAT(reported, testing::Not(HasSubstr("mask the scores")));
}

/// As linear attention decays: an exponential of differences, of which those of later tokens are -inf.
TEST(MaskedScores, InfinitiesOfTheNetworkStayInFloat) {
  GraphBuilder b("decay");
  const NodeInput x = b.input("x", {kTokens, kWidth});
  const NodeInput decays = b.linear("decay", x, kWidth, kTokens, false);
  const NodeInput masked = b.call("add", {decays, b.parameter("mask", {kTokens, kTokens})});
  const NodeInput shares = b.call("exp", {masked});
  PassBench bench(b.finish(b.linear("o", shares, kTokens, kWidth, false)));
  const std::span<float> mask = bench.graph.node("mask").find_parameter("value")->tensor.values<float>();
  for (int64_t i = 0; i < kTokens * kTokens; ++i) {
    const bool is_later = i % kTokens > i / kTokens;
    mask[static_cast<size_t>(i)] = is_later ? -std::numeric_limits<float>::infinity() : 0.0F;
  }
  bench.run_passes("[passes.static_quantize]\nreport = false\n");
  EXPECT_THAT(bench.reported, HasSubstr("in float, as they read or give infinities: add, exp\n"));
  EXPECT_FALSE(bench.graph.node("o").quantization.empty());
}

/// As linear attention divides by sums of features: the least of them round to codes of 0.
TEST(MaskedScores, DivisorsThatRoundToZeroStayInFloat) {
  const auto number = [](double value) { return NodeInput::of_constant(Value(value)); };
  GraphBuilder b("shares");
  const NodeInput x = b.input("x", {kTokens, kWidth});
  const NodeInput values = b.linear("v", x, kWidth, kWidth, false);
  const NodeInput features = b.linear("f", b.call("relu", {values}), kWidth, kWidth, false);
  const NodeInput sums = b.call("add", {b.call("relu", {features}), number(1e-12)});
  const NodeInput shares = b.call("div", {b.call("relu", {features}), sums});
  const NodeInput others = b.call("div", {shares, b.call("add", {b.call("sigmoid", {values}), number(1)})});
  PassBench bench(b.finish(b.linear("o", others, kWidth, kWidth, false)));
  bench.run_passes("[passes.static_quantize]\nreport = false\n");
  EXPECT_THAT(bench.reported, HasSubstr("take logarithms of what codes would round to 0: add\n"));
  EXPECT_TRUE(bench.graph.node("add").quantization.empty());
  EXPECT_FALSE(bench.graph.node("add_1").quantization.empty()) << "1 and more";
}

/// As x / max(|x|, 1e-12) repeated: no sample comes near 0, but codes do not hold the bound.
TEST(MaskedScores, DivisorsWhoseBoundRoundsToZeroStayInFloat) {
  const auto divided = [](double least) {
    GraphBuilder b("bounded");
    const NodeInput x = b.input("x", {kTokens, kWidth});
    const NodeInput values = b.linear("v", x, kWidth, kWidth, false);
    const NodeInput far = b.call("add", {b.call("sigmoid", {values}), NodeInput::of_constant(Value(1.0))});
    const NodeInput bounded =
        b.call("clamp", {far, NodeInput::of_constant(Value(least)), NodeInput::absent()});
    const NodeInput repeated =
        b.call("dynamic_expand", {bounded, NodeInput::of_constant(List{Value(1), Value(1), Value(1)})});
    const NodeInput shares = b.call("div", {values, repeated});
    PassBench bench(b.finish(b.linear("o", shares, kWidth, kWidth, false)));
    bench.run_passes("[passes.static_quantize]\nreport = false\n");
    return std::move(bench.graph);
  };
  EXPECT_TRUE(divided(1e-12).node("clamp").quantization.empty());
  EXPECT_FALSE(divided(0.5).node("clamp").quantization.empty());
}

/// The same where the divisor is part of the product with the features themselves.
TEST(MaskedScores, ProductsThatDivideStayInFloat) {
  GraphBuilder b("products");
  const NodeInput x = b.input("x", {kTokens, kWidth});
  const NodeInput query = b.call("relu", {b.linear("q", x, kWidth, kWidth, false)});
  const NodeInput key = b.call("relu", {b.linear("k", x, kWidth, kWidth, false)});
  const NodeInput turned = b.call("transpose", {key}, {{"dim0", 1}, {"dim1", 2}});
  const NodeInput sums = b.call("matmul", {query, b.call("matmul", {turned, key})});
  const NodeInput first = b.call("slice", {sums}, {{"dims", 2}, {"starts", 0}, {"ends", 1}});
  PassBench bench(b.finish(b.linear("o", b.call("div", {sums, first}), kWidth, kWidth, false)));
  bench.run_passes("[passes.static_quantize]\nreport = false\n");
  EXPECT_THAT(bench.reported, HasSubstr("take logarithms of what codes would round to 0: matmul_1\n"));
  EXPECT_FALSE(bench.graph.node("matmul").quantization.empty());
}

/// Whether the samples mask anything or not. Where they do not, what is summed of the values saturates, as
/// that of few is larger than that of all.
TEST(MaskedScores, MasksThatInputsGiveCostNoAccuracy) {
  const double unmasked = sqnr(Mask::kNone, 0, false);
  for (const Mask mask : {Mask::kGiven, Mask::kGivenBiased}) {
    EXPECT_GT(sqnr(mask, 0, true), unmasked - kTolerance) << static_cast<int>(mask);
    EXPECT_GT(sqnr(mask, 0, false), 15) << static_cast<int>(mask);
  }
}

/// Rows turned by angles that grow with their places, as in rotary embeddings.
TEST(PositionValues, AreNotQuantizedButWhatIsMultipliedByThem) {
  GraphBuilder b("turned");
  const auto list = [](const std::vector<int64_t>& values) { return NodeInput::of_constant(Value(values)); };
  const NodeInput x = b.input("x", {kTokens, kWidth});
  const NodeInput count = b.call("shape_of", {x}, {{"start", 1}, {"end", 2}});
  const NodeInput places = b.call("range", {constant(0), b.call("squeeze", {count, list({0})}), constant(1)});
  const NodeInput column = b.call("cast", {b.call("unsqueeze", {places, list({1})})}, {{"dtype", "float32"}});
  const NodeInput angles = b.call("mul", {column, b.parameter("frequencies", {kWidth})});
  const NodeInput turned = b.call("mul", {x, b.call("cos", {angles})});
  PassBench bench(b.finish(b.linear("o", turned, kWidth, kWidth, false)));
  bench.run_passes("[passes.static_quantize]\nreport = false\nnum_samples = 8\n");
  for (const char* name : {"mul", "cos"})
    EXPECT_EQ(bench.graph.node(name).find_quantizer("data_in_0"), nullptr) << name;
  EXPECT_NE(bench.graph.node("mul_1").find_quantizer("data_in_0"), nullptr);
  EXPECT_NE(bench.graph.node("mul_1").find_quantizer("data_in_1"), nullptr);
}

}  // namespace
}  // namespace detent

// Numbers worked out with Brevitas (release 0.12.1), where docs/training.md does not say that Detent decides
// otherwise.

#include <cmath>
#include <limits>
#include <vector>

#include <ATen/ops/arange.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/autograd/fake_quantize.h"
#include "detent/autograd/initialize.h"
#include "detent/autograd/interpreter.h"
#include "detent/autograd/owned_rounding.h"
#include "detent/autograd/rounding_gradient.h"
#include "detent/autograd/torch_outputs_for_test.h"
#include "detent/autograd/torch_tensor.h"
#include "detent/core/error.h"
#include "detent/engine/fast_executor.h"
#include "detent/graph/builder.h"
#include "detent/graph/owned_parameters.h"
#include "detent/passes/pass_bench_for_test.h"
#include "detent/statistics/range_search.h"

namespace detent {
namespace {

using testing::ElementsAreArray;
using testing::FloatNear;
using testing::HasSubstr;
using testing::Pointwise;

const float kNotCalibrated = std::numeric_limits<float>::quiet_NaN();

std::vector<float> simulated(const std::string& spec, const std::vector<float>& values, Shape shape = {}) {
  if (shape.empty()) shape = {static_cast<int64_t>(values.size())};
  const Tensor result = fake_quantize(parse_quant_spec_text(spec), Tensor::from<float>(shape, values));
  return {result.values<float>().begin(), result.values<float>().end()};
}

/// Each row over its scale gives its codes.
std::vector<int> codes(const std::vector<float>& values, const std::vector<double>& scales) {
  std::vector<int> result;
  const size_t row = values.size() / scales.size();
  for (size_t i = 0; i < values.size(); ++i)
    result.push_back(static_cast<int>(std::lround(static_cast<double>(values[i]) / scales[i / row])));
  return result;
}

TEST(WorkedNumbers, Rounding) {
  const std::vector<float> x = {-2.5F, -1.5F, -1.2F, -0.5F, -0.4F, 0.4F, 0.5F, 1.2F, 1.5F, 2.5F, 3.5F};
  EXPECT_THAT(simulated("fixed:width=8,frac_width=0", x),
              ElementsAreArray({-2, -2, -1, 0, 0, 0, 0, 1, 2, 2, 4}));
  EXPECT_THAT(simulated("fixed:width=8,frac_width=0,rounding=floor", x),
              ElementsAreArray({-3, -2, -2, -1, -1, 0, 0, 1, 1, 2, 3}));
}

/// Values with a scale of 1 as the quantizer of a trained network makes them.
std::vector<float> rounded_by(Rounding rounding, const std::vector<float>& x) {
  Quantizer quantizer(parse_quant_spec_text("int8:scale_rule=learned"));
  const auto number = [](float value) { return Parameter{Tensor::from<float>({}, std::vector{value})}; };
  quantizer.parameters.emplace_back("scale", number(1));
  quantizer.rounding = rounding;
  const Tensor result = fake_quantize(quantizer, Tensor::from<float>({static_cast<int64_t>(x.size())}, x));
  return {result.values<float>().begin(), result.values<float>().end()};
}

TEST(WorkedNumbers, RoundingOfCodes) {
  const std::vector<float> x = {-2.5F, -1.5F, -1.2F, -0.5F, -0.4F, 0.4F, 0.5F, 1.2F, 1.5F, 2.5F, 3.5F};
  EXPECT_THAT(rounded_by(Rounding::kNearest, x), ElementsAreArray({-2, -2, -1, 0, 0, 0, 0, 1, 2, 2, 4}));
  EXPECT_THAT(rounded_by(Rounding::kFloor, x), ElementsAreArray({-3, -2, -2, -1, -1, 0, 0, 1, 1, 2, 3}));
  EXPECT_THAT(rounded_by(Rounding::kCeil, x), ElementsAreArray({-2, -1, -1, 0, 0, 1, 1, 2, 2, 3, 4}));
  EXPECT_THAT(rounded_by(Rounding::kToZero, x), ElementsAreArray({-2, -1, -1, 0, 0, 0, 0, 1, 1, 2, 3}));
  // Drawn only while it is trained.
  EXPECT_EQ(rounded_by(Rounding::kStochastic, x), rounded_by(Rounding::kNearest, x));
}

TEST(WorkedNumbers, LearnedRoundingBeginsWithWhatTheFloorLacks) {
  const std::vector<std::pair<float, double>> starts = {
      {0.1F, -1.609438}, {0.3F, -0.693147}, {0.5F, 0}, {0.8F, 1.098612}};
  for (const auto& [fraction, start] : starts) {
    const float up = round_up_of(fraction);
    EXPECT_NEAR(up, start, 1e-6);
    EXPECT_NEAR(round_up_share(at::scalar_tensor(up, at::kFloat)).item<float>(), fraction, 1e-6);
  }
}

TEST(WorkedNumbers, ClampingMasksTheGradientOrPassesIt) {
  for (const bool is_masked : {true, false}) {
    const at::Tensor x = at::tensor({-3.0F, 0.2F, 3.0F}).set_requires_grad(true);
    const QuantSpec spec = parse_quant_spec_text(is_masked ? "fixed:width=2,frac_width=0,gradient=clipped"
                                                           : "fixed:width=2,frac_width=0");
    fake_quantize(x, spec).sum().backward();
    EXPECT_TRUE(x.grad().equal(is_masked ? at::tensor({0.0F, 1.0F, 0.0F}) : at::tensor({1.0F, 1.0F, 1.0F})));
  }
}

Quantizer owning(const std::string& spec, const std::vector<std::pair<std::string, float>>& numbers) {
  Quantizer quantizer(parse_quant_spec_text(spec));
  for (const auto& [name, value] : numbers)
    quantizer.parameters.emplace_back(name, Parameter{Tensor::from<float>({}, std::vector<float>{value})});
  return quantizer;
}

std::vector<float> simulated(const Quantizer& quantizer, const std::vector<float>& values) {
  const Tensor result =
      fake_quantize(quantizer, Tensor::from<float>({static_cast<int64_t>(values.size())}, values));
  return {result.values<float>().begin(), result.values<float>().end()};
}

TEST(WorkedNumbers, BinaryAndTernary) {
  const std::vector<float> x = {-0.3F, 0, 0.04F, 0.05F, 0.06F, 5};
  EXPECT_THAT(simulated(owning("binary:scale_rule=learned", {{"scale", 0.1F}}), x),
              ElementsAreArray({-0.1F, 0.1F, 0.1F, 0.1F, 0.1F, 0.1F}));
  const std::vector<float> ternary = {-0.1F, 0, 0, 0, 0.1F, 0.1F};
  EXPECT_THAT(simulated(owning("ternary:scale_rule=learned", {{"scale", 0.1F}, {"threshold", 0.5F}}), x),
              ElementsAreArray(ternary));
  // Brevitas's ternary: 2 bits without the lowest code.
  EXPECT_THAT(simulated("affine:width=2,symmetric=true,narrow_range=true,scale=0.1", x),
              ElementsAreArray(ternary));
}

const std::vector<float> kWeights = {0.5F,   -1.27F,  0.031F, 0.9F,  0.02F, 0.1F,
                                     -0.06F, 0.0299F, 2,      -0.4F, 0.7F,  -3};

TEST(WorkedNumbers, EightBitWeights) {
  EXPECT_EQ(codes(simulated("int8:narrow_range=true", kWeights), {3.0 / 127}),
            (std::vector{21, -54, 1, 38, 1, 4, -3, 1, 85, -17, 30, -127}));
  const std::vector<double> scales = {0.01, 0.1 / 127, 3.0 / 127};
  EXPECT_EQ(codes(simulated("int8:narrow_range=true,granularity=channel", kWeights, {3, 4}), scales),
            (std::vector{50, -127, 3, 90, 25, 127, -76, 38, 85, -17, 30, -127}));
}

TEST(WorkedNumbers, FourBitWeights) {
  const std::vector<double> scales = {1.27 / 7, 0.1 / 7, 3.0 / 7};
  EXPECT_EQ(codes(simulated("int4:narrow_range=true,granularity=channel", kWeights, {3, 4}), scales),
            (std::vector{3, -7, 0, 5, 1, 7, -4, 2, 5, -1, 2, -7}));
}

TEST(WorkedNumbers, FixedPointWeights) {
  Quantizer quantizer(parse_quant_spec_text("int8:narrow_range=true,granularity=channel,scale_rule=learned"));
  std::vector<float> exponents;
  for (const float largest : {1.27F, 0.1F, 3.0F})
    exponents.push_back(parameter_of_scale(ScaleParameter::kExponent, largest / 127, 127));
  quantizer.parameters.emplace_back("exponent", Parameter{Tensor::from<float>({3}, exponents)});
  const Tensor result = fake_quantize(quantizer, Tensor::from<float>({3, 4}, kWeights));
  EXPECT_EQ(codes({result.values<float>().begin(), result.values<float>().end()}, {0x1p-6, 0x1p-10, 0x1p-5}),
            (std::vector{32, -81, 2, 58, 20, 102, -61, 31, 64, -13, 22, -96}));
}

/// Codes minus zero points. Brevitas adds the zero point before it rounds, so a tie goes elsewhere (25 and
/// 128).
TEST(WorkedNumbers, ShiftedWeights) {
  EXPECT_EQ(codes(simulated("uint8", kWeights), {5.0 / 255}),
            (std::vector{26, -65, 2, 46, 1, 5, -3, 2, 102, -20, 36, -153}));
}

TEST(WorkedNumbers, AsymmetricActivations) {
  EXPECT_EQ(codes(simulated("uint8", {-1, 0, 0.5F, 2, 3}), {4.0 / 255}), (std::vector{-64, 0, 32, 127, 191}));
  EXPECT_EQ(codes(simulated("uint8", {1, 2, 3}), {3.0 / 255}), (std::vector{85, 170, 255}));
}

TEST(WorkedNumbers, HardTanhClampsByItsCodes) {
  EXPECT_EQ(codes(simulated("affine:scale=0.0078125", {-2, -1, -0.3F, 0.3F, 0.999F, 1, 2}), {0x1p-7}),
            (std::vector{-128, -128, -38, 38, 127, 127, 127}));
}

TEST(WorkedNumbers, LinearLayer) {
  GraphBuilder builder("linear");
  Graph graph = builder.finish(builder.linear("fc", builder.input("x", {4}), 4, 2));
  Node& fc = graph.node("fc");
  fc.find_parameter("weight")->tensor =
      Tensor::from<float>({2, 4}, std::vector<float>{0.5F, -1.27F, 0.03F, 0.9F, 0.02F, 0.1F, -0.06F, 0.03F});
  fc.find_parameter("bias")->tensor = Tensor::from<float>({2}, std::vector<float>{0.25F, -0.1F});
  fc.quantization["data_in_0"] = parse_quant_spec_text("affine:scale=0.015625");
  fc.quantization["weight"] = parse_quant_spec_text("affine:narrow_range=true,scale=0.01");
  fc.quantization["bias"] = parse_quant_spec_text("affine:width=16,scale=0.00015625");
  Interpreter interpreter(graph);
  const at::Tensor result = interpreter.run(at::tensor({1.0F, -0.5F, 0.25F, 2.0F}).view({1, 4}));
  EXPECT_NEAR(result[0][0].item<double>(), 20342 * 0.00015625, 1e-6);
  EXPECT_NEAR(result[0][1].item<double>(), -547 * 0.00015625, 1e-6);
}

/// Section 12.4: the mean of codes 0 to 15 in windows of 2x2, of which as many lower bits are dropped.
std::vector<int> pooled_codes(int width, float scale) {
  GraphBuilder builder("pool");
  NodeInput x = builder.call("avg_pool2d", {builder.input("x", {1, 4, 4})}, {{"kernel_size", 2}});
  Graph graph = builder.finish(x);
  Quantizer truncating(
      parse_quant_spec_text(fmt::format("affine:width={},signed=false,scale_rule=learned", width)));
  const auto number = [](float value) { return Parameter{Tensor::from<float>({}, std::vector{value})}; };
  truncating.parameters.emplace_back("scale", number(scale));
  truncating.rounding = Rounding::kFloor;
  graph.node("avg_pool2d").quantization["data_out_0"] = std::move(truncating);
  const at::Tensor codes_in = at::arange(16, at::kFloat).mul(0.1).view({1, 1, 4, 4});
  const at::Tensor result = torch_output(graph, codes_in).contiguous();
  return codes({result.data_ptr<float>(), result.data_ptr<float>() + result.numel()}, {scale});
}

TEST(WorkedNumbers, AveragePoolingAndTruncation) {
  EXPECT_EQ(pooled_codes(8, 0.1F), (std::vector{2, 4, 10, 12}));
  EXPECT_EQ(pooled_codes(6, 0.4F), (std::vector{0, 1, 2, 3}));
}

/// Section 12.6.
TEST(WorkedNumbers, BatchNormFolding) {
  GraphBuilder builder("folding");
  NodeInput x = builder.linear("fc", builder.input("x", {1}), 1, 2);
  PassBench bench(builder.finish(builder.batch_norm("batch_norm1d", "norm", x, 2)));
  const auto set = [&](const char* node, const char* parameter, const Shape& shape,
                       const std::vector<float>& values) {
    bench.graph.node(node).find_parameter(parameter)->tensor = Tensor::from<float>(shape, values);
  };
  set("fc", "weight", {2, 1}, {2, -1});
  set("fc", "bias", {2}, {0.5F, 1});
  set("norm", "running_mean", {2}, {1, -2});
  set("norm", "running_var", {2}, {4, 0.25F});
  set("norm", "weight", {2}, {2, 0.5F});
  set("norm", "bias", {2}, {0.1F, 0.2F});
  bench.run_passes("[passes.fuse_batch_norm]");
  const auto values = [&](const char* parameter) {
    return bench.graph.node("fc").find_parameter(parameter)->tensor.values<float>();
  };
  EXPECT_THAT(values("weight"), Pointwise(FloatNear(1e-6F), {1.9999976F, -0.99998F}));
  EXPECT_THAT(values("bias"), Pointwise(FloatNear(1e-6F), {-0.3999994F, 3.1999397F}));
}

/// Section 7.4: a scale that the first steps observe.
class Observation : public testing::Test {
 protected:
  void observe(ScaleParameter kind, const ScaleObserver& observer) {
    kind_ = kind;
    observer_ = observer;
    quantizer_.owned = {
        {scale_parameter_name(kind), at::scalar_tensor(kNotCalibrated, at::kFloat).set_requires_grad(true)}};
  }

  /// `largest` as a step of training rounds it.
  double step(float largest) {
    const at::Tensor x = at::tensor({largest, -largest / 2});
    return round_with_owned(x, quantizer_, 1, 0)[0].item<double>();
  }
  /// The same in evaluation.
  double range() const {
    const float parameter = quantizer_.owned[0].second.item<float>();
    return double{scale_of_parameter(kind_, parameter, 127)} * 127;
  }

  ScaleParameter kind_ = ScaleParameter::kRange;
  ScaleObserver observer_;
  TrainedQuantizer quantizer_ = {.spec = parse_quant_spec_text("int8:scale_rule=learned"),
                                 .observer = &observer_};
};

TEST_F(Observation, StepsUseTheirOwnStatisticAndTheAverageStays) {
  observe(ScaleParameter::kRange, {.momentum = 0.1F, .steps = 3});
  EXPECT_NEAR(step(1), 1, 1e-6);
  EXPECT_NEAR(range(), 1, 1e-6);
  EXPECT_NEAR(step(2), 2, 1e-6);
  EXPECT_NEAR(range(), 1.1, 1e-6);
  EXPECT_NEAR(step(4), 4, 1e-6);
  EXPECT_NEAR(range(), 1.39, 1e-6);
  EXPECT_NEAR(step(2), 1.39, 1e-6);  // the fourth clips to what was observed
  EXPECT_NEAR(range(), 1.39, 1e-6);
}

TEST_F(Observation, WithoutMomentumTheOrderOfStepsDoesNotMatter) {
  for (const auto& batches : {std::vector<float>{1, 2, 4}, std::vector<float>{4, 2, 1}}) {
    observe(ScaleParameter::kScale, {.steps = 3});
    for (const float batch : batches) step(batch);
    EXPECT_NEAR(range(), 7.0 / 3, 1e-5);
  }
}

TEST_F(Observation, PowersOfTwoAreSoWhileTheyAreObserved) {
  observe(ScaleParameter::kExponent, {.momentum = 0.1F, .steps = 3});
  for (const float batch : {1.0F, 2.0F, 3.0F}) {
    const at::Tensor rounded = round_with_owned(at::tensor({batch}), quantizer_, 1, 0);
    const double scale = std::exp2(std::ceil(std::log2(static_cast<double>(batch) / 127)));
    EXPECT_EQ(rounded.item<double>(), std::nearbyint(static_cast<double>(batch) / scale) * scale) << batch;
  }
  EXPECT_EQ(range(), 127 * 0x1p-6);  // of 1.29
}

/// MAX_AVE of section 8.
TEST_F(Observation, MaximaOfChannelsAreAveraged) {
  observe(ScaleParameter::kRange, {.statistic = Threshold::kMeanOfMaxima, .steps = 3});
  const std::vector<float> t = {0.1F, -2, 0.5F, 1, 3, -0.25F, 0.75F, 0, -0.5F, 0.5F, -0.5F, 1.5F};
  observe_scale(at::tensor(t).view({1, 3, 4}), quantizer_);
  EXPECT_NEAR(range(), 2.1666667, 1e-6);
}

TEST_F(Observation, WhatIsNotFiniteIsLeftOut) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Threshold statistic : {Threshold::kMax, Threshold::kMeanOfMaxima, Threshold::kPercentile}) {
    observe(ScaleParameter::kRange, {.statistic = statistic, .argument = 100, .steps = 3});
    observe_scale(at::tensor({1.0F, nan, -3.0F, infinity, -infinity, 2.0F}).view({1, 1, 6}), quantizer_);
    EXPECT_NEAR(range(), 3, 1e-5) << enum_name(statistic);
  }
}

TEST_F(Observation, OnlyThenTheScaleIsTrained) {
  observe(ScaleParameter::kScale, {.steps = 3});
  const at::Tensor& scale = quantizer_.owned[0].second;
  const at::Tensor x = at::tensor({1.0F, 0.3F}).set_requires_grad(true);
  for (int i = 0; i < 3; ++i) round_with_owned(x, quantizer_, 1, 0).sum().backward();
  EXPECT_FALSE(scale.grad().defined());
  round_with_owned(x, quantizer_, 1, 0).sum().backward();
  EXPECT_TRUE(scale.grad().defined());
}

TEST_F(Observation, AScaleThatWasNeverCalibratedIsAnErrorThatNamesTheTensor) {
  GraphBuilder builder("network");
  Graph graph = builder.finish(builder.linear("fc", builder.input("x", {4}), 4, 2));
  initialize_parameters(graph);
  graph.node("fc").quantization["data_in_0"] = owning("int8:scale_rule=learned", {{"scale", kNotCalibrated}});
  try {
    FastExecutor().compile(graph);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("\"fc\""));
    EXPECT_THAT(error.what(), HasSubstr("data_in_0"));
    EXPECT_THAT(error.what(), HasSubstr("never calibrated"));
  }
}

}  // namespace
}  // namespace detent

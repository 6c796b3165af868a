// Gradients of what quantizers own, against the formulas of the papers and against finite differences.

#include <algorithm>
#include <cmath>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "detent/autograd/initialize.h"
#include "detent/autograd/owned_rounding.h"
#include "detent/autograd/torch_tensor.h"
#include "detent/graph/owned_parameters.h"

namespace detent {
namespace {

at::Tensor leaf(std::vector<float> values) {
  const at::Tensor tensor =
      values.size() == 1 ? at::scalar_tensor(values[0], at::kFloat) : at::tensor(values);
  return tensor.clone().set_requires_grad(true);
}

/// Weighted sum of the rounded values, so that every element counts differently.
class QatGradients : public testing::Test {
 protected:
  QatGradients() { seed_everything(5); }

  at::Tensor loss(const std::string& spec, const OwnedTensors& owned,
                  Rounding rounding = Rounding::kNearest) const {
    const TrainedQuantizer quantizer{parse_quant_spec_text(spec), owned, rounding};
    return round_with_owned(x_, quantizer, 1, 0).mul(weights_).sum();
  }

  /// Gradient of `moved` among them times sqrt(N * largest code): what the formulas say.
  double gradient(const std::string& spec, const OwnedTensors& owned, const at::Tensor& moved,
                  double largest_code) const {
    loss(spec, owned).backward();
    return moved.grad().item<double>() * std::sqrt(static_cast<double>(x_.numel()) * largest_code);
  }

  /// d loss / d parameter where no element changes its code.
  double finite_difference(const std::string& spec, const OwnedTensors& owned, const at::Tensor& moved,
                           double step) const {
    const at::NoGradGuard no_gradients;
    const at::Tensor parameter = moved.detach();
    const double value = parameter.item<double>();
    parameter.fill_(value + step);
    const double above = loss(spec, owned).item<double>();
    parameter.fill_(value - step);
    const double below = loss(spec, owned).item<double>();
    parameter.fill_(value);
    return (above - below) / (2 * step);
  }

  /// Sums over elements that v = x / scale takes below low, inside, above high.
  struct Sums {
    double inside = 0;  // of weight * (code - v)
    double codes = 0;   // of weight * code
    double below = 0;
    double above = 0;
  };
  Sums sums(double scale, double low, double high) const {
    Sums sums;
    for (int64_t i = 0; i < x_.numel(); ++i) {
      const double w = weights_[i].item<double>();
      const double v = x_[i].item<double>() / scale;
      const double code = std::clamp(std::nearbyint(v), low, high);
      sums.codes += w * code;
      if (std::nearbyint(v) < low) sums.below += w;
      if (std::nearbyint(v) > high) sums.above += w;
      if (std::nearbyint(v) == code) sums.inside += w * (code - v);
    }
    return sums;
  }

  const at::Tensor x_ = at::randn({64});
  const at::Tensor weights_ = at::randn({64}).add(0.5);
};

TEST_F(QatGradients, ScaleAsInLsq) {
  const at::Tensor scale = leaf({0.3F});
  const Sums s = sums(double{0.3F}, -4, 3);
  ASSERT_NE(s.above, 0);
  EXPECT_NEAR(gradient("int3:scale_rule=learned", {{"scale", scale}}, scale, 3),
              s.inside - 4 * s.below + 3 * s.above, 1e-4);
}

TEST_F(QatGradients, LogarithmsHaveTheDerivativeOfTheirPowers) {
  const Sums s = sums(0.5, -4, 3);
  const double of_scale = s.inside - 4 * s.below + 3 * s.above;
  const at::Tensor log2 = leaf({-1});
  EXPECT_NEAR(gradient("int3:scale_rule=learned", {{"log2_scale", log2}}, log2, 3),
              of_scale * 0.5 * std::log(2), 1e-4);
  const at::Tensor exponent = leaf({-1.7F});  // ceil: the same scale
  EXPECT_NEAR(gradient("int3:scale_rule=learned", {{"exponent", exponent}}, exponent, 3),
              of_scale * 0.5 * std::log(2), 1e-4);
}

TEST_F(QatGradients, ClipIsThatOfPact) {
  // Gradient of clip: 1 where x is clipped from above, 0 elsewhere; unsigned, so that below is 0.
  const at::Tensor clip = leaf({1.5F});
  loss("affine:width=3,signed=false,scale_rule=learned", {{"clip", clip}}).backward();
  EXPECT_NEAR(clip.grad().item<double>(), sums(1.5 / 7, 0, 7).above, 1e-4);
}

TEST_F(QatGradients, RangeIsScaleTimesLargestCode) {
  const at::Tensor range = leaf({1.5F});
  const Sums s = sums(1.5 / 7, -7, 7);
  EXPECT_NEAR(gradient("int4:narrow_range=true,scale_rule=learned", {{"range", range}}, range, 7),
              (s.inside - 7 * s.below + 7 * s.above) / 7, 1e-4);
}

TEST_F(QatGradients, ZeroPointAsInLsqPlus) {
  const at::Tensor scale = leaf({0.3F});
  const at::Tensor zero = leaf({2.2F});
  const Sums s = sums(double{0.3F}, -2, 5);
  EXPECT_NEAR(gradient("affine:width=3,signed=false,scale_rule=learned",
                       {{"scale", scale}, {"zero_point", zero}}, zero, 7),
              -0.3 * (s.below + s.above), 1e-4);
}

TEST_F(QatGradients, WidthMovesTheScaleOfItsRange) {
  const at::Tensor range = leaf({1.5F});
  const at::Tensor width = leaf({4.3F});  // 4 bits, codes -7 ... 7
  const double scale = 1.5 / 7;
  const Sums s = sums(1.5 / 7, -7, 7);
  const double of_scale = s.inside - 7 * s.below + 7 * s.above;
  const double ends = 8 * std::log(2);  // d 2^3 / d width
  EXPECT_NEAR(
      gradient("int4:narrow_range=true,scale_rule=learned", {{"range", range}, {"width", width}}, width, 7),
      ends * (scale * (s.above - s.below) - of_scale * scale / 7), 1e-3);
}

TEST_F(QatGradients, GammasHaveTheSignsOfTheirLevels) {
  const at::Tensor gamma = leaf({0.8F, 0.37F});
  loss("binary_residual:scale_rule=learned", {{"gamma", gamma}}).backward();
  double first = 0;
  double second = 0;
  for (int64_t i = 0; i < x_.numel(); ++i) {
    const double x = x_[i].item<double>();
    const double left = x - double{0.8F} * (x < 0 ? -1 : 1);
    first += weights_[i].item<double>() * (x < 0 ? -1 : 1);
    second += weights_[i].item<double>() * (left < 0 ? -1 : 1);
  }
  EXPECT_NEAR(gamma.grad()[0].item<double>() * std::sqrt(32.0), first, 1e-4);
  EXPECT_NEAR(gamma.grad()[1].item<double>() * std::sqrt(32.0), second, 1e-4);
}

TEST_F(QatGradients, ScalesOfSignsAreFiniteDifferences) {
  const at::Tensor scale = leaf({0.8F});
  const OwnedTensors owned = {{"scale", scale}};
  EXPECT_NEAR(gradient("binary:scale_rule=learned", owned, scale, 1),
              finite_difference("binary:scale_rule=learned", owned, scale, 1e-3), 0.02);
}

TEST_F(QatGradients, ThresholdsMoveWhatIsWithinHalfAStep) {
  const at::Tensor scale = leaf({0.8F});
  const at::Tensor threshold = leaf({0.6F});
  double expected = 0;
  for (int64_t i = 0; i < x_.numel(); ++i) {
    const double v = x_[i].item<double>() / double{0.8F};
    const bool moves = std::fabs(std::fabs(v) - 0.6) < 0.5;
    if (moves) expected -= double{0.8F} * weights_[i].item<double>() * (v < 0 ? -1 : 1);
  }
  EXPECT_NEAR(
      gradient("ternary:scale_rule=learned", {{"scale", scale}, {"threshold", threshold}}, threshold, 1),
      expected, 1e-3);
}

/// Over a straight line through all codes the squared error has no steps, and LSQ's gradient is its own.
TEST_F(QatGradients, LsqIsRightOnAverage) {
  constexpr int64_t kCount = 20000;
  const at::Tensor ramp = at::arange(kCount, at::kFloat).mul(8.0 / kCount).sub(4);
  const at::Tensor scale = leaf({0.5F});
  const QuantSpec spec = parse_quant_spec_text("int3:scale_rule=learned");
  const auto error = [&](const at::Tensor& s) {
    return round_with_owned(ramp, {spec, {{"scale", s}}}, 1, 0).sub(ramp).pow(2).mean();
  };
  error(scale).backward();
  const at::NoGradGuard no_gradients;
  const double difference = (error(at::scalar_tensor(0.501, at::kFloat)).item<double>() -
                             error(at::scalar_tensor(0.499, at::kFloat)).item<double>()) /
                            0.002;
  EXPECT_NEAR(scale.grad().item<double>() * std::sqrt(3.0 * kCount), difference,
              0.02 * std::fabs(difference));
}

TEST_F(QatGradients, EveryRoundingHasThatOfLsq) {
  for (const Rounding rounding :
       {Rounding::kFloor, Rounding::kCeil, Rounding::kToZero, Rounding::kStochastic}) {
    const at::Tensor scale = leaf({0.3F});
    const at::Tensor x = x_.clone().set_requires_grad(true);
    const QuantSpec spec = parse_quant_spec_text("int3:scale_rule=learned");
    const at::Tensor values = round_with_owned(x, {spec, {{"scale", scale}}, rounding}, 1, 7);
    values.mul(weights_).sum().backward();
    std::vector<float> scaled(64);
    for (int64_t i = 0; i < 64; ++i) scaled[static_cast<size_t>(i)] = x_[i].div(scale.detach()).item<float>();
    std::vector<float> codes(64);
    round_to_whole(rounding, scaled, codes, 7);
    double expected = 0;
    for (int64_t i = 0; i < 64; ++i) {
      const auto v = static_cast<double>(scaled[static_cast<size_t>(i)]);
      const auto whole = static_cast<double>(codes[static_cast<size_t>(i)]);
      const bool is_inside = whole >= -4 && whole <= 3;
      expected += weights_[i].item<double>() * (is_inside ? whole - v : std::clamp(whole, -4.0, 3.0));
      EXPECT_FLOAT_EQ(x.grad()[i].item<float>(), is_inside ? weights_[i].item<float>() : 0);
      EXPECT_EQ(values[i].item<float>(), static_cast<float>(std::clamp(whole, -4.0, 3.0)) * 0.3F);
    }
    EXPECT_NEAR(scale.grad().item<double>() * std::sqrt(64.0 * 3), expected, 1e-4);
  }
}

TEST_F(QatGradients, StochasticRoundingIsRightOnAverage) {
  const at::Tensor x = at::tensor({0.3F, -0.8F, 1.25F});
  const TrainedQuantizer quantizer{
      parse_quant_spec_text("int8:scale_rule=learned"), {{"scale", leaf({1})}}, Rounding::kStochastic};
  constexpr int kDraws = 4000;
  at::Tensor sum = at::zeros({3});
  for (uint64_t seed = 0; seed < kDraws; ++seed) sum.add_(round_with_owned(x, quantizer, 1, seed).detach());
  EXPECT_LT(sum.div(kDraws).sub(x).abs().max().item<double>(), 4 * 0.5 / std::sqrt(kDraws));
  EXPECT_TRUE(round_with_owned(x, quantizer, 1, 5).equal(round_with_owned(x, quantizer, 1, 5)));
}

TEST_F(QatGradients, LearnedRoundingIsAFiniteDifference) {
  std::vector<float> starts(64);
  for (size_t i = 0; i < starts.size(); ++i) starts[i] = 0.04F * static_cast<float>(i) - 1.2F;
  const at::Tensor up = leaf(starts);
  const std::string spec = "int3:scale_rule=learned";
  const OwnedTensors owned = {{"scale", leaf({0.4F})}, {kRoundUp, up}};
  loss(spec, owned, Rounding::kLearned).backward();
  const at::NoGradGuard no_gradients;
  double largest = 0;
  for (int64_t i = 0; i < 64; ++i) {
    const float before = up[i].item<float>();
    const auto loss_at = [&](float value) {
      up[i].fill_(value);
      return loss(spec, owned, Rounding::kLearned).item<double>();
    };
    const double difference = (loss_at(before + 0.02F) - loss_at(before - 0.02F)) / 0.04;
    up[i].fill_(before);
    EXPECT_NEAR(up.grad()[i].item<double>(), difference, 2e-3) << i;
    largest = std::max(largest, std::fabs(difference));
  }
  EXPECT_GT(largest, 0.05);
}

/// Weights of DoReFa pass tanh(x) / max |tanh(x)|, whose derivative the rounding leaves as it is.
TEST_F(QatGradients, DorefaHasThatOfItsNormalization) {
  const TrainedQuantizer quantizer{parse_quant_spec_text("int3:narrow_range=true,scale_rule=learned"),
                                   {{"scale", at::scalar_tensor(1.0F / 3, at::kFloat)}},
                                   Rounding::kDorefa};
  const at::Tensor x = x_.clone().set_requires_grad(true);
  const at::Tensor values = round_with_owned(x, quantizer, 1, 0);
  values.mul(weights_).sum().backward();
  const auto normalized = [&](const at::Tensor& of) { return of.tanh().div(of.tanh().abs().max()); };
  const at::NoGradGuard no_gradients;
  // w_q = 2 round((2^k - 1) (w / 2 + 1 / 2)) / (2^k - 1) - 1
  const at::Tensor expected = normalized(x_).div(2).add(0.5).mul(3).round().mul(2).sub(3).div(3);
  EXPECT_LT(values.sub(expected).abs().max().item<double>(), 1e-6);
  constexpr double kStep = 1e-3;
  for (int64_t i = 0; i < 64; ++i) {
    at::Tensor moved = x_.clone();
    moved[i] += kStep;
    const double above = normalized(moved).mul(weights_).sum().item<double>();
    moved[i] -= 2 * kStep;
    const double below = normalized(moved).mul(weights_).sum().item<double>();
    EXPECT_NEAR(x.grad()[i].item<double>(), (above - below) / (2 * kStep), 0.02) << i;
  }
}

TEST_F(QatGradients, CodebooksAreFiniteDifferences) {
  const at::Tensor codebook = leaf({-1.1F, -0.3F, 0.4F, 1.2F});
  const std::string spec = "codebook:values=-1x0x1x2";
  const OwnedTensors owned = {{kCodebook, codebook}};
  loss(spec, owned).backward();
  const at::NoGradGuard no_gradients;
  for (int64_t i = 1; i < 3; ++i) {  // the temperature follows from the outermost two
    const float before = codebook[i].item<float>();
    const auto loss_at = [&](float value) {
      codebook[i].fill_(value);
      return loss(spec, owned).item<double>();
    };
    const double difference = (loss_at(before + 1e-3F) - loss_at(before - 1e-3F)) / 2e-3;
    codebook[i].fill_(before);
    EXPECT_NEAR(codebook.grad()[i].item<double>(), difference, 0.01 * std::fabs(difference) + 0.01) << i;
  }
}

TEST_F(QatGradients, ExponentBiasesAreThoseOfTheirPowersOfTwo) {
  const std::string spec = "minifloat_ieee:width=5,exponent_width=2";
  const at::Tensor bias = leaf({1.8F});  // 2; of 2 exponent and 2 mantissa bits, up to 1.75 * 2
  const Tensor values = from_torch(x_.clone());
  const QuantSpec fixed = parse_quant_spec_text(spec + ",exponent_bias=2");
  const at::Tensor rounded = to_torch(fake_quantize(fixed, values));
  const at::Tensor inside = to_torch(clipped_ste_mask(fixed, values));
  EXPECT_TRUE(
      round_with_owned(x_, {parse_quant_spec_text(spec), {{kExponentBias, bias}}}, 1, 0).equal(rounded));
  const double expected = rounded.sub(x_.mul(inside)).mul(weights_).sum().item<double>() * -std::log(2.0);
  EXPECT_NEAR(gradient(spec, {{kExponentBias, bias}}, bias, 1), expected, 1e-4);
}

}  // namespace
}  // namespace detent

#include "detent/statistics/calibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "detent/core/error.h"
#include "detent/core/error_of_for_test.h"
#include "detent/statistics/range_search.h"

namespace detent {
namespace {

using testing::HasSubstr;

std::vector<float> normal_values(size_t count, float mean = 0, float deviation = 1) {
  std::mt19937 generator(7);
  std::normal_distribution<float> normal(mean, deviation);
  std::vector<float> values(count);
  for (float& value : values) value = normal(generator);
  return values;
}

CalibrationOptions with(Calibrator calibrator) {
  CalibrationOptions options;
  options.calibrator = calibrator;
  return options;
}

QuantSpec calibrated(const char* spec, const Distribution& distribution, const CalibrationOptions& options) {
  return calibrate(parse_quant_spec_text(spec), {&distribution, 1}, options, "test");
}

template <class F>
F calibrated_format(const char* spec, const Distribution& distribution, Calibrator calibrator) {
  return std::get<F>(calibrated(spec, distribution, with(calibrator)).format);
}

std::string calibration_error(const char* spec, std::vector<Distribution> parts,
                              const CalibrationOptions& options) {
  return detent::error_of([&] { calibrate(parse_quant_spec_text(spec), parts, options, "stats.toml"); });
}

bool saturates(const Format& format, float value) {
  Tensor one(DType::kFloat32, {1});
  one.values<float>()[0] = value;
  return clipped_ste_mask({.format = format}, one).values<float>()[0] == 0;
}

TEST(Distribution, CountsEqualValuesAndLeavesOutWhatIsNotFinite) {
  const std::vector<float> values = {2, -1, 2, std::nanf(""), -std::numeric_limits<float>::infinity(), 0};
  const Distribution distribution = Distribution::of(values);
  EXPECT_EQ(distribution.bins, (std::vector<Distribution::Bin>{{-1, 1}, {0, 1}, {2, 2}}));
  EXPECT_EQ(distribution.range->low, -1);
  EXPECT_EQ(distribution.range->high, 2);
  EXPECT_DOUBLE_EQ(*distribution.mean, 0.75);
  EXPECT_DOUBLE_EQ(*distribution.variance, (4 + 1 + 4) / 4.0 - 0.75 * 0.75);
}

TEST(Distribution, MergedIsThatOfAllValues) {
  const std::vector<float> values = normal_values(1000, 3, 2);
  const std::span<const float> all = values;
  const std::vector<Distribution> parts = {Distribution::of(all.first(10)),
                                           Distribution::of(all.subspan(10, 700)),
                                           Distribution::of(all.subspan(710))};
  const Distribution merged = Distribution::merged(parts);
  const Distribution whole = Distribution::of(values);
  EXPECT_EQ(merged.bins, whole.bins);
  EXPECT_EQ(merged.range->low, whole.range->low);
  EXPECT_EQ(merged.range->high, whole.range->high);
  EXPECT_NEAR(*merged.mean, *whole.mean, 1e-12);
  EXPECT_NEAR(*merged.variance, *whole.variance, 1e-12);
}

// A step that covers a range holds both ends; one step finer, it does not.
TEST(Covering, HoldsTheRangeWithTheFinestStep) {
  std::mt19937 generator(3);
  std::uniform_real_distribution<float> exponent(-20, 20);
  for (int i = 0; i < 500; ++i) {
    const float high = std::exp2(exponent(generator));
    const Interval range{i % 3 == 0 ? -2 * high : -0.1F * high, high};
    for (const char* text : {"fixed:width=8", "fixed:width=3", "minifloat_ieee:width=6,exponent_width=3",
                             "minifloat_denorm:width=6,exponent_width=3", "log:width=5"}) {
      const Format held = qparams_from_range(parse_format(text), {&range, 1}, ScaleForm::kFloat, "test");
      EXPECT_FALSE(saturates(held, range.low)) << text << " " << range.low;
      EXPECT_FALSE(saturates(held, range.high)) << text << " " << range.high;
      const float magnitude = std::max(-range.low, range.high);
      const float widest = std::visit([](const auto& format) { return format.values("").back(); }, held);
      EXPECT_LE(widest, 4 * magnitude) << text;
    }
    for (const char* text :
         {"affine:width=8", "affine:width=4,symmetric=true", "affine:width=8,signed=false"}) {
      for (const ScaleForm form : {ScaleForm::kFloat, ScaleForm::kPowerOfTwo}) {
        const auto held = std::get<Affine>(qparams_from_range(parse_format(text), {&range, 1}, form, "test"));
        EXPECT_FALSE(saturates(held, range.high)) << text;
        EXPECT_FALSE(saturates(held, range.low)) << text;
        int exponent_bits = 0;
        const float mantissa = std::frexp(held.scale[0], &exponent_bits);
        EXPECT_TRUE(form == ScaleForm::kFloat || mantissa == 0.5F) << held.scale[0];
      }
    }
  }
}

TEST(Covering, UnsignedFormatsHoldWhatTheyCan) {
  const Interval range{-100, 3};
  const Format held =
      qparams_from_range(parse_format("fixed:width=4,signed=false"), {&range, 1}, ScaleForm::kFloat, "");
  EXPECT_EQ(format_text(held), format_text(parse_format("fixed:width=4,signed=false,frac_width=2")));
}

TEST(Covering, NothingButZeroChangesNothing) {
  const Interval nothing{0, 0};
  for (const char* text : {"fixed:width=8", "minifloat_ieee:width=8", "minifloat_denorm", "log"}) {
    EXPECT_EQ(qparams_from_range(parse_format(text), {&nothing, 1}, ScaleForm::kFloat, ""),
              parse_format(text));
  }
  const auto affine =
      std::get<Affine>(qparams_from_range(parse_format("affine"), {&nothing, 1}, ScaleForm::kPowerOfTwo, ""));
  EXPECT_EQ(affine.scale, std::vector<float>{1});
}

TEST(Calibrate, MinMaxGivesWhatAffineDerivesFromTheData) {
  const std::vector<float> values = normal_values(1000, 0.3F);
  Tensor tensor(DType::kFloat32, {1000});
  std::ranges::copy(values, tensor.values<float>().begin());
  for (const char* text : {"affine:width=8", "affine:width=5,symmetric=true", "affine:signed=false"}) {
    const QuantSpec given = calibrated(text, Distribution::of(values), {});
    EXPECT_EQ(given.format == parse_format(text), false);
    const Tensor expected = fake_quantize(parse_quant_spec_text(text), tensor);
    const Tensor actual = fake_quantize(given, tensor);
    EXPECT_TRUE(std::ranges::equal(expected.values<float>(), actual.values<float>())) << text;
  }
}

TEST(Calibrate, PercentileTakesOrderStatistics) {
  std::vector<float> values;
  for (int i = 0; i <= 1000; ++i) values.push_back(static_cast<float>(i - 300));
  CalibrationOptions options = with(Calibrator::kPercentile);
  options.percentile = 99;
  const Interval range = clipping_range(Affine{}, Distribution::of(values), options, "test");
  EXPECT_EQ(range.low, -290);
  EXPECT_EQ(range.high, 690);
}

TEST(Calibrate, NSigmaStaysWithinTheValues) {
  Distribution distribution = Distribution::of(normal_values(4096));
  distribution.mean = 1;
  distribution.variance = 0.25;
  CalibrationOptions options = with(Calibrator::kNSigma);
  options.num_sigma = 2;
  EXPECT_EQ(clipping_range(Affine{}, distribution, options, "").low, 0);
  EXPECT_EQ(clipping_range(Affine{}, distribution, options, "").high, 2);
  options.num_sigma = 100;
  EXPECT_EQ(clipping_range(Affine{}, distribution, options, "").high, distribution.range->high);
}

TEST(Calibrate, AverageRangeIsTaken) {
  Distribution distribution;
  distribution.average_range = {-3, 5};
  const auto fixed = calibrated_format<Fixed>("fixed:width=8", distribution, Calibrator::kAverageRange);
  EXPECT_EQ(fixed.frac_width, 4);
}

TEST(Calibrate, AverageRangeOfWeightsIsTheirRange) {
  const Tensor weight = Tensor::from<float>({2, 2}, std::vector<float>{-1, 3, 0, 0.5F});
  const auto distributions = weight_distributions(weight, parse_quant_spec_text("int8:granularity=channel"),
                                                  Calibrator::kAverageRange, "");
  ASSERT_EQ(distributions.size(), 2U);
  EXPECT_EQ(distributions[0].average_range->low, -1);
  EXPECT_EQ(distributions[0].average_range->high, 3);
  EXPECT_EQ(distributions[1].average_range->high, 0.5F);
}

/// As a value that a pruned layer gives.
TEST(Calibrate, ZerosHaveTheSmallestThreshold) {
  const auto ternary = calibrated_format<Ternary>("ternary", Distribution::of(std::vector<float>{0, -0.0F}),
                                                  Calibrator::kMinMax);
  EXPECT_EQ(ternary.max, std::numeric_limits<float>::denorm_min());
}

// All frac_widths and biases there are, tried one by one.
TEST(CalibrateMse, FindsTheBestPowerOfTwo) {
  std::vector<float> values = normal_values(5000);
  values.push_back(40);
  const Distribution distribution = Distribution::of(values);
  FormatError error(distribution);
  for (int width = 2; width <= 8; ++width) {
    const std::string text = fmt::format("fixed:width={}", width);
    const auto found = calibrated_format<Fixed>(text.c_str(), distribution, Calibrator::kMse);
    for (int bits = -10; bits <= 20; ++bits) {
      Fixed other = found;
      other.frac_width = bits;
      EXPECT_LE(error.squared(found), error.squared(other)) << text << " " << bits;
    }
  }
  const auto found = calibrated_format<MinifloatIeee>("minifloat_ieee:width=5,exponent_width=2", distribution,
                                                      Calibrator::kMse);
  for (int bias = -20; bias < 20; ++bias) {
    MinifloatIeee other = found;
    other.exponent_bias = bias;
    EXPECT_LE(error.squared(found), error.squared(other)) << bias;
  }
}

TEST(CalibrateMse, NoOtherScaleIsBetter) {
  std::vector<float> values = normal_values(20000);
  values.push_back(1000);
  const Distribution distribution = Distribution::of(values);
  FormatError error(distribution);
  for (int width = 2; width <= 8; ++width) {
    const std::string text = fmt::format("affine:width={},symmetric=true", width);
    const auto found = calibrated_format<Affine>(text.c_str(), distribution, Calibrator::kMse);
    const double least = error.squared(found);
    for (int i = 0; i < 4000; ++i) {
      Affine other = found;
      other.scale = {std::exp2(static_cast<float>(i) / 200 - 10)};
      EXPECT_LE(least, error.squared(other) * 1.005)
          << text << " " << other.scale[0] << " " << found.scale[0];
    }
  }
}

// Clipping both ends alike cannot do this: all of one side's values are near 0, but for one.
TEST(CalibrateMse, MovesTheEndsApart) {
  std::vector<float> values = normal_values(20000, 4, 1);
  values.push_back(-3);
  const Distribution distribution = Distribution::of(values);
  FormatError error(distribution);
  const auto found = calibrated_format<Affine>("affine:width=4", distribution, Calibrator::kMse);
  const auto joint = [&](double factor) {
    const Interval range{static_cast<float>(-3 * factor),
                         static_cast<float>(static_cast<double>(distribution.range->high) * factor)};
    return qparams_from_range(Affine{.width = 4}, {&range, 1}, ScaleForm::kFloat, "");
  };
  for (int i = 1; i <= 100; ++i) EXPECT_LT(error.squared(found), 0.9 * error.squared(joint(i / 100.0)));
}

// Ternary weight networks (Li et al. 2016): 0.6 sigma is near the best threshold for normal values.
TEST(CalibrateMse, TernaryThresholdOfNormalValues) {
  const Distribution distribution = Distribution::of(normal_values(200000));
  const auto found =
      calibrated_format<Ternary>("ternary:scaling_factor=true", distribution, Calibrator::kMse);
  EXPECT_NEAR(0.05 * static_cast<double>(*found.max), 0.612, 0.02);
}

TEST(CalibrateMse, ResidualBinaryScalesOfNormalValues) {
  const Distribution distribution = Distribution::of(normal_values(200000));
  const auto found =
      calibrated_format<BinaryResidual>("binary_residual:levels=2", distribution, Calibrator::kMse);
  ASSERT_EQ(found.gamma.size(), 2U);
  EXPECT_NEAR(found.gamma[0], std::sqrt(2 / M_PI), 0.01);  // mean |x|
  FormatError error(distribution);
  for (const float factor : {0.97F, 1.03F}) {
    BinaryResidual other = found;
    other.gamma[1] *= factor;
    EXPECT_LT(error.squared(found), error.squared(other));
  }
}

/// The optimum of a normal distribution (Max 1960, "Quantizing for Minimum Distortion", table I).
TEST(CalibrateMse, CodebooksOfNormalValues) {
  const Distribution distribution = Distribution::of(normal_values(200000));
  const auto entries = [&](const char* format) {
    return calibrated_format<Codebook>(format, distribution, Calibrator::kMse).entries;
  };
  const auto expect_near = [](const std::vector<float>& actual, const std::vector<float>& expected) {
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 0.02F) << i;
  };
  expect_near(entries("codebook2"), {-0.7980F, 0.7980F});
  expect_near(entries("codebook4"), {-1.510F, -0.4528F, 0.4528F, 1.510F});
  expect_near(entries("codebook8"), {-2.152F, -1.344F, -0.7560F, -0.2451F, 0.2451F, 0.7560F, 1.344F, 2.152F});
}

TEST(CalibrateMse, CodebooksKeepEntriesThatNoValueIsNearestTo) {
  const Distribution few = Distribution::of(std::vector<float>{-1, -1, 3});
  const std::vector<float> entries = calibrated_format<Codebook>("codebook8", few, Calibrator::kMse).entries;
  EXPECT_EQ(entries.size(), 8U);
  EXPECT_TRUE(std::ranges::is_sorted(entries));
  EXPECT_EQ(std::ranges::adjacent_find(entries), entries.end());
  EXPECT_THAT(entries, testing::Contains(-1));
  EXPECT_THAT(entries, testing::Contains(3));
}

TEST(Calibrate, RangesStretchCodebooksAndScaleFloats) {
  const Distribution distribution = Distribution::of(std::vector<float>{-4, 1, 2});
  EXPECT_EQ(calibrated("codebook:values=-1x0x0.5", distribution, with(Calibrator::kMinMax)),
            parse_quant_spec_text("codebook:values=-4x0x2"));
  EXPECT_EQ(calibrated("scaled:element=fp4_e2m1", distribution, with(Calibrator::kMinMax)),
            parse_quant_spec_text("scaled:element=fp4_e2m1,scale=0.6666667x"));
  EXPECT_EQ(calibrated("nvfp4", distribution, with(Calibrator::kMse)),
            parse_quant_spec_text(fmt::format("nvfp4:tensor_scale={}", 4.0F / 2688.0F)));
  CalibrationOptions options = with(Calibrator::kMinMax);
  options.scale_form = ScaleForm::kPowerOfTwo;
  EXPECT_EQ(calibrated("scaled:element=fp4_e2m1", distribution, options),
            parse_quant_spec_text("scaled:element=fp4_e2m1,scale=1x"));
}

TEST(CalibrateEntropy, KeepsAUniformRangeAndClipsAnOutlier) {
  std::vector<float> values;
  for (int i = -4096; i <= 4096; ++i) values.push_back(static_cast<float>(i) / 4096);
  const Distribution uniform = Distribution::of(values);
  const CalibrationOptions options = with(Calibrator::kEntropy);
  EXPECT_GT(clipping_range(Affine{}, uniform, options, "").high, 0.97F);

  values = normal_values(100000);
  values.push_back(30);
  const Interval clipped = clipping_range(Affine{.symmetric = true}, Distribution::of(values), options, "");
  EXPECT_GT(clipped.high, 2.5F);
  EXPECT_LT(clipped.high, 8);
}

// Half of what a ReLU gives is 0. Without care for it, the best range would end next to 0.
TEST(CalibrateEntropy, ZerosDoNotCount) {
  std::vector<float> values = normal_values(100000);
  const CalibrationOptions options = with(Calibrator::kEntropy);
  for (float& value : values) value = std::max(value, 0.0F);
  for (const int width : {4, 8}) {
    const Affine format{.width = width, .is_signed = false};
    EXPECT_GT(clipping_range(format, Distribution::of(values), options, "").high, 1.5F) << width;
  }
}

TEST(Calibrate, OneScaleAChannelButOneFracWidth) {
  const std::vector<Distribution> channels = {Distribution::of(normal_values(100, 0, 1)),
                                              Distribution::of(normal_values(100, 0, 8))};
  const QuantSpec affine = calibrate(
      parse_quant_spec_text("affine:width=8,symmetric=true,granularity=channel"), channels, {}, "test");
  const std::vector<float>& scale = std::get<Affine>(affine.format).scale;
  ASSERT_EQ(scale.size(), 2U);
  EXPECT_NEAR(scale[1] / scale[0], 8, 1e-4);
  const QuantSpec fixed = calibrate(parse_quant_spec_text("fixed:width=8"), channels, {}, "test");
  const QuantSpec of_widest =
      calibrate(parse_quant_spec_text("fixed:width=8"), {&channels[1], 1}, {}, "test");
  EXPECT_EQ(fixed, of_widest);
}

TEST(Calibrate, RefusesToSearchInAHistogramThatIsTooCoarse) {
  Distribution distribution = Distribution::of(normal_values(3000));
  distribution.intervals = 64;
  EXPECT_THAT(
      calibration_error("affine", {distribution}, with(Calibrator::kMse)),
      HasSubstr("calibrator \"mse\": the histogram has 64 bins, expected at least 2048 for affine: collect "
                "it with bins = 2048"));
  EXPECT_EQ(calibration_error("affine:width=3", {distribution}, with(Calibrator::kEntropy)), "");
  EXPECT_EQ(calibration_error("affine", {distribution}, with(Calibrator::kPercentile)), "");
}

TEST(Calibrate, SaysWhatIsMissing) {
  Distribution empty;
  EXPECT_THAT(calibration_error("affine", {empty}, {}),
              HasSubstr("stats.toml: calibrator \"min_max\" needs the statistic range_min_max"));
  EXPECT_THAT(calibration_error("affine", {empty}, with(Calibrator::kMse)),
              HasSubstr("needs the statistic histogram"));
  EXPECT_THAT(calibration_error("affine:granularity=channel", {Distribution::of(normal_values(3)), empty},
                                with(Calibrator::kNSigma)),
              HasSubstr("channel 1: calibrator \"n_sigma\" needs"));
  EXPECT_THAT(calibration_error("mx", {Distribution::of(normal_values(3))}, {}),
              HasSubstr("mx has no parameters that depend on a range, expected one of fixed"));
  EXPECT_THAT(calibration_error("binary_residual", {Distribution::of(normal_values(3))}, {}),
              HasSubstr("expected calibrator \"mse\""));
}

}  // namespace
}  // namespace detent

// Formats whose values do not depend on the data, exhaustively: against a search in the sorted list of their
// values, for the upper 16 bits of float32, all ties and the neighbours of both.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "detent/core/error_of_for_test.h"
#include "detent/formats/quant_spec.h"

namespace detent {
namespace {

using testing::ElementsAre;
using testing::FloatEq;
using testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Tensor tensor(const std::vector<float>& values) {
  return Tensor::from({static_cast<int64_t>(values.size())}, values);
}

std::vector<float> list(const Tensor& tensor) {
  return {tensor.values<float>().begin(), tensor.values<float>().end()};
}

std::vector<float> rounded(std::string_view spec, const std::vector<float>& values) {
  return list(fake_quantize(parse_quant_spec_text(spec), tensor(values)));
}

std::vector<float> mask(std::string_view spec, const std::vector<float>& values) {
  return list(clipped_ste_mask(parse_quant_spec_text(spec), tensor(values)));
}

std::string parse_error(std::string_view text) {
  return error_of([&] { parse_quant_spec_text(text); });
}

double middle(float low, float high) { return (static_cast<double>(low) + static_cast<double>(high)) / 2; }

std::vector<float> nearly_all_values(const std::vector<float>& values) {
  std::vector<float> result;
  for (uint32_t high = 0; high < 65536; ++high) {
    const auto x = std::bit_cast<float>(high << 16);
    if (!std::isnan(x)) result.push_back(x);
  }
  for (size_t i = 1; i < values.size(); ++i) {
    for (const float x : {values[i], static_cast<float>(middle(values[i - 1], values[i]))}) {
      result.insert(result.end(), {std::nextafter(x, -kInfinity), x, std::nextafter(x, kInfinity)});
    }
  }
  return result;
}

/// Index of the value that rounding `x` must give; `tie_goes_up(index of the lower neighbour)` decides ties.
size_t nearest(const std::vector<float>& values, float x, const auto& tie_goes_up) {
  const auto above = static_cast<size_t>(std::ranges::upper_bound(values, x) - values.begin());
  if (above == 0) return 0;
  if (above == values.size()) return above - 1;
  const double tie = middle(values[above - 1], values[above]);
  if (static_cast<double>(x) == tie) return tie_goes_up(above - 1) ? above : above - 1;
  return static_cast<double>(x) < tie ? above - 1 : above;
}

void check_nearest(std::string_view text, const std::vector<float>& values, const auto& tie_goes_up) {
  const std::vector<float> inputs = nearly_all_values(values);
  const std::vector<float> got = rounded(text, inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    ASSERT_EQ(got[i], values[nearest(values, inputs[i], tie_goes_up)])
        << text << fmt::format(" of {:a}", inputs[i]);
  }
  // Saturated is what beyond the ends would be nearer to one more value at the distance of the last two.
  const std::vector<float> held = mask(text, inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool within = inputs[i] >= values.front() && inputs[i] <= values.back();
    ASSERT_TRUE(held[i] == 1.0F || !within) << text << fmt::format(" of {:a}", inputs[i]);
    ASSERT_TRUE(held[i] == 0.0F || std::isfinite(inputs[i])) << text << fmt::format(" of {:a}", inputs[i]);
  }
}

/// Codes of one sign ascend with the magnitude, so the parity of a code is that of the index counted from 0.
void check_minifloat(std::string_view text) {
  const std::vector<float> values = representable_values(parse_format(text));
  ASSERT_TRUE(std::ranges::is_sorted(values, std::less_equal<>())) << text;
  const auto zero = static_cast<int64_t>(std::ranges::find(values, 0.0F) - values.begin());
  check_nearest(text, values, [&](size_t low) { return (static_cast<int64_t>(low) - zero) % 2 != 0; });
}

TEST(Minifloat, PresetsAreANearestValue) {
  for (const char* name : {"fp8_e4m3fn", "fp8_e5m2", "fp8_e4m3fnuz", "fp8_e5m2fnuz", "fp6_e3m2", "fp6_e2m3",
                           "fp4_e2m1", "fp16", "bf16"}) {
    check_minifloat(name);
  }
}

TEST(Minifloat, EveryShapeOfUpTo8BitsIsANearestValue) {
  for (const char* name : {"minifloat_ieee", "minifloat_denorm"}) {
    const bool ieee = std::string_view(name) == "minifloat_ieee";
    for (int width = ieee ? 3 : 4; width <= 8; ++width) {
      // With a mantissa bit that both neighbours of a tie differ in.
      for (int exponent = 1; width - 1 - exponent >= (ieee ? 1 : 2); ++exponent) {
        const int codes = 1 << exponent;
        const int mantissa_bits = width - 1 - exponent;
        for (const int bias : {codes - 128, 0, codes / 2 - 1, 127, 150 - mantissa_bits - (ieee ? 0 : 1)}) {
          check_minifloat(
              fmt::format("{}:width={},exponent_width={},exponent_bias={}", name, width, exponent, bias));
        }
      }
    }
  }
}

TEST(Minifloat, WideExponentsAreANearestValue) {
  check_minifloat("minifloat_ieee:width=16,exponent_width=8,exponent_bias=128");
  check_minifloat("minifloat_ieee:width=11,exponent_width=8,exponent_bias=148");
  check_minifloat("minifloat_denorm:width=16,exponent_width=8");
  check_minifloat("minifloat_denorm:width=12,exponent_width=7,exponent_bias=145");
}

TEST(Minifloat, WithoutMantissaTiesGoUp) {
  EXPECT_THAT(rounded("minifloat_ieee:width=4,exponent_width=3,exponent_bias=1", {0.5F, 1.5F, 3, 6, 96}),
              ElementsAre(0, 2, 4, 8, 64));
  EXPECT_THAT(mask("minifloat_ieee:width=4,exponent_width=3,exponent_bias=1", {95.9F, 96, -96}),
              ElementsAre(1, 0, 0));
}

TEST(Minifloat, LargestAndSmallestOfThePresets) {
  const auto ends = [](std::string_view name) {
    const std::vector<float> values = representable_values(parse_format(name));
    return std::pair(values.back(), *std::ranges::upper_bound(values, 0.0F));
  };
  EXPECT_EQ(ends("fp8_e4m3fn"), std::pair(448.0F, 0x1p-9F));
  EXPECT_EQ(ends("fp8_e5m2"), std::pair(57344.0F, 0x1p-16F));
  EXPECT_EQ(ends("fp8_e4m3fnuz"), std::pair(240.0F, 0x1p-10F));
  EXPECT_EQ(ends("fp8_e5m2fnuz"), std::pair(57344.0F, 0x1p-17F));
  EXPECT_EQ(ends("fp6_e3m2"), std::pair(28.0F, 0x1p-4F));
  EXPECT_EQ(ends("fp6_e2m3"), std::pair(7.5F, 0x1p-3F));
  EXPECT_EQ(ends("fp4_e2m1"), std::pair(6.0F, 0.5F));
  EXPECT_EQ(ends("fp16"), std::pair(65504.0F, 0x1p-24F));
  EXPECT_EQ(ends("bf16"), std::pair(0x1.FEp127F, 0x1p-133F));
  EXPECT_THAT(error_of([] { representable_values(parse_format("tf32")); }),
              HasSubstr("19 bits are too many"));
}

TEST(Minifloat, WhatIsTooLargeSaturatesUnlessItMayBecomeAnInfinity) {
  EXPECT_THAT(rounded("fp8_e5m2", {61439, 61440, kInfinity, -kInfinity}),
              ElementsAre(57344, 57344, 57344, -57344));
  EXPECT_THAT(rounded("fp8_e5m2:saturate=false", {61439, 61440, -kInfinity}),
              ElementsAre(57344, kInfinity, -kInfinity));
  EXPECT_THAT(rounded("fp16:saturate=false", {65519, 65520}), ElementsAre(65504, kInfinity));
  EXPECT_THAT(rounded("bf16:saturate=false", {0x1.FEFFFEp127F, 0x1.FFp127F}),
              ElementsAre(0x1.FEp127F, kInfinity));
  EXPECT_THAT(rounded("tf32", {0x1.FFCp127F, 0x1.FFEp127F, 0x1.002p0F, 0x1.006p0F}),
              ElementsAre(0x1.FFCp127F, 0x1.FFCp127F, 1, 0x1.008p0F));
  EXPECT_THAT(mask("fp8_e4m3fn", {464, std::nextafter(464.0F, 500.0F)}), ElementsAre(1, 0));
  EXPECT_THAT(mask("fp4_e2m1", {7, std::nextafter(7.0F, 0.0F)}), ElementsAre(0, 1));
}

TEST(Log, RoundsInTheLogDomain) {
  for (const char* text : {"log", "log:width=4", "log:width=2,exponent_bias=0", "log:width=8,exponent_bias=0",
                           "log:width=9,exponent_bias=149", "log:width=9,exponent_bias=128"}) {
    const std::vector<float> values = representable_values(parse_format(text));
    const std::vector<float> inputs = nearly_all_values(values);
    const std::vector<float> got = rounded(text, inputs);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const double x = std::clamp(std::fabs(static_cast<double>(inputs[i])),
                                  static_cast<double>(*std::ranges::upper_bound(values, 0.0F)),
                                  static_cast<double>(values.back()));
      const double below = std::ldexp(1.0, std::ilogb(x));
      const double expected = x * x > 2 * below * below ? 2 * below : below;
      ASSERT_EQ(static_cast<double>(got[i]), inputs[i] < 0 ? -expected : expected)
          << text << fmt::format(" of {:a}", inputs[i]);
    }
  }
  const float below_sqrt2 = 0x1.6A09E6p0F;
  EXPECT_THAT(rounded("log", {below_sqrt2, std::nextafter(below_sqrt2, 2.0F), 0.0F, -0.0F, -1e-45F}),
              ElementsAre(1, 2, 0x1p-63F, 0x1p-63F, -0x1p-63F));
  EXPECT_THAT(mask("log:width=4", {16 * below_sqrt2, 16 * std::nextafter(below_sqrt2, 2.0F), 0}),
              ElementsAre(1, 0, 1));
}

TEST(Codebook, IsANearestValueTiesDown) {
  const auto down = [](size_t) { return false; };
  for (const char* name : {"fp4_e2m1", "fp6_e2m3", "fp8_e5m2", "log:width=9,exponent_bias=128", "fp16"}) {
    const std::vector<float> values = representable_values(parse_format(name));
    const QuantSpec spec{.format = Codebook{.entries = values}};
    check_nearest(quant_spec_text(spec), values, down);
  }
  EXPECT_THAT(rounded("codebook:values=0.5x", {-kInfinity, 0, 7}), ElementsAre(0.5F, 0.5F, 0.5F));
  // The middle of these is not a double.
  EXPECT_THAT(rounded("codebook:values=-1e-45x1.7014118e38", {0x1p126F, std::nextafter(0x1p126F, 0.0F)}),
              ElementsAre(0x1p127F, -1e-45F));
}

TEST(Affine, GivenScale) {
  EXPECT_THAT(rounded("affine:scale=0.5,zero_point=1", {0.25F, 0.75F, -0.25F, 100, -100, kInfinity}),
              ElementsAre(0, 1, 0, 63, -64.5F, 63));
  EXPECT_THAT(rounded("affine:scale=0.5,signed=false,narrow_range=true,zero_point=1", {-1, 200}),
              ElementsAre(0, 127));
  EXPECT_THAT(rounded("affine:scale=3e38", {kInfinity, 1e38F, -3.4e38F}), ElementsAre(3e38F, 0, -3e38F));
  EXPECT_THAT(mask("affine:scale=1,zero_point=0", {127.5F, 127.49F, -128.5F, -128.51F}),
              ElementsAre(0, 1, 1, 0));
  EXPECT_EQ(rounded("affine:width=16,scale=0.1,zero_point=3", {0.25F})[0], 2 * 0.1F);
  const std::vector<float> values = representable_values(parse_format("affine:scale=0.25"));
  EXPECT_EQ(values.front(), -32);
  EXPECT_EQ(values.back(), 31.75F);
}

TEST(Affine, DerivedFromTheRange) {
  EXPECT_THAT(rounded("affine:signed=false", {-1, 254, 3.4F, kInfinity, kNan}).at(2), 3);
  EXPECT_THAT(rounded("affine:symmetric=true", {-127, 3.4F}), ElementsAre(-127, 3));
  EXPECT_THAT(rounded("affine", {510, 3}), ElementsAre(510, 4));
  EXPECT_THAT(rounded("affine", {0, 0}), ElementsAre(0, 0));
  EXPECT_THAT(rounded("affine", {kInfinity, kInfinity}), ElementsAre(127, 127));
  EXPECT_THAT(rounded("affine", {1e-45F}), ElementsAre(1e-45F));
  const float max = std::numeric_limits<float>::max();
  for (const float y : rounded("affine", {max, -max})) EXPECT_TRUE(std::isfinite(y));
}

/// 127.5 steps below 0 there are 127 or 128 codes: as many as DynamicQuantizeLinear has.
TEST(Affine, ZeroOfARangeAroundItIsThatOfDynamicQuantizeLinear) {
  const float step = 6.25F / 255;
  EXPECT_EQ(rounded("affine:signed=false", {-3.125F, 0, 3.125F}),
            (std::vector<float>{-128 * step, 0, 127 * step}));
}

TEST(Affine, OneScaleAChannel) {
  const Tensor input = Tensor::from<float>({2, 2}, std::vector<float>{1.2F, 2.6F, 1.2F, 2.6F});
  const auto by = [&](std::string_view text) {
    return list(fake_quantize(parse_quant_spec_text(text), input));
  };
  EXPECT_THAT(by("affine:scale=1x2,granularity=channel"), ElementsAre(1, 3, 2, 2));
  EXPECT_THAT(by("affine:scale=1x2,zero_point=0x127,granularity=channel,axis=1"), ElementsAre(1, 0, 1, 0));
  EXPECT_THAT(error_of([&] { by("affine:scale=1x2"); }), HasSubstr("key \"scale\": got 2 values"));
}

TEST(BinaryResidual, LevelByLevel) {
  EXPECT_THAT(rounded("binary_residual:gamma=1x0.5", {0, 2, -0.2F, -9, 1, kInfinity}),
              ElementsAre(0.5F, 1.5F, -0.5F, -1.5F, 1.5F, 1.5F));
  // |x| has the mean 2; what is left, 1, -1, 1, has the mean 1.
  EXPECT_THAT(rounded("binary_residual", {3, -1, -2}),
              ElementsAre(FloatEq(8.0F / 3), FloatEq(-4.0F / 3), FloatEq(-4.0F / 3)));
  EXPECT_THAT(representable_values(parse_format("binary_residual:gamma=2x1")), ElementsAre(-3, -1, 1, 3));
}

TEST(EveryElementFormat, KeepsNan) {
  for (const char* text : {"minifloat_ieee", "minifloat_denorm", "fp8_e5m2:saturate=false", "bf16", "log",
                           "affine", "binary_residual", "codebook:values=0x1"}) {
    const std::vector<float> y = rounded(text, {1, kNan, -kNan});
    EXPECT_TRUE(std::isfinite(y[0]) && std::isnan(y[1]) && std::isnan(y[2])) << text;
  }
}

TEST(EveryElementFormat, TextReadsBack) {
  for (const char* text :
       {"minifloat_ieee:width=6,exponent_width=2,exponent_bias=-3", "minifloat_denorm:exponent_width=3",
        "fp8_e4m3fn", "fp8_e5m2:saturate=false", "fp8_e4m3fnuz", "fp8_e5m2fnuz", "fp6_e3m2", "fp6_e2m3",
        "fp4_e2m1", "fp16:saturate=false", "bf16", "tf32", "log:width=4,exponent_bias=2",
        "affine:symmetric=true", "affine:scale=0.1x0.2,zero_point=1x2", "binary_residual:levels=3",
        "codebook:values=-1.0x0.0x0.1"}) {
    EXPECT_EQ(format_text(parse_format(text)), text);
  }
  EXPECT_EQ(parse_format("affine:scale=0.1"), Format(Affine{.scale = {0.1F}}));
}

TEST(EveryElementFormat, ErrorsSayWhatIsWrong) {
  EXPECT_THAT(parse_error("minifloat_ieee:width=4,exponent_width=4"), HasSubstr("leaves -1 mantissa bits"));
  EXPECT_THAT(parse_error("minifloat_ieee:width=16,exponent_width=8"),
              HasSubstr("got NA, which stands for 127, expected at least 128 and at most 143"));
  EXPECT_THAT(parse_error("minifloat_denorm:width=5,exponent_width=4"), HasSubstr("at least 1"));
  EXPECT_THAT(parse_error("log:width=9"), HasSubstr("expected at least 128 and at most 149"));
  EXPECT_THAT(parse_error("fp8_e4m3fn:saturate=false"), HasSubstr("\"saturate\""));
  EXPECT_THAT(parse_error("affine:scale=0"), HasSubstr("key \"scale\": got 0"));
  EXPECT_THAT(parse_error("affine:zero_point=3"), HasSubstr("expected \"scale\" beside it"));
  EXPECT_THAT(parse_error("affine:scale=1,zero_point=128"), HasSubstr("at least -128 and at most 127"));
  EXPECT_THAT(parse_error("affine:scale=1x2,zero_point=1"), HasSubstr("as many as \"scale\" has, 2"));
  EXPECT_THAT(parse_error("affine:symmetric=true,signed=false"), HasSubstr("key \"symmetric\""));
  EXPECT_THAT(parse_error("affine:scale=1,granularity=channel"), HasSubstr("one for the whole tensor"));
  EXPECT_THAT(parse_error("codebook"), HasSubstr("got 0 values"));
  EXPECT_THAT(parse_error("codebook:values=1x1"), HasSubstr("got 1.0 at index 1 after 1.0"));
  EXPECT_THAT(parse_error("binary_residual:levels=3,gamma=1x2"), HasSubstr("one for each of 3 levels"));
}

TEST(Simulate, TakesHalfPrecisionInputs) {
  Tensor half(DType::kFloat16, {2});
  Tensor brain(DType::kBFloat16, {2});
  const uint16_t half_bits[] = {0x3C00, 0x0001};   // 1, 2^-24
  const uint16_t brain_bits[] = {0xBF80, 0x0001};  // -1, 2^-133
  std::copy_n(reinterpret_cast<const std::byte*>(half_bits), 4, half.bytes().data());
  std::copy_n(reinterpret_cast<const std::byte*>(brain_bits), 4, brain.bytes().data());
  EXPECT_THAT(list(fake_quantize(parse_quant_spec_text("fp16"), half)), ElementsAre(1, 0x1p-24F));
  EXPECT_THAT(list(fake_quantize(parse_quant_spec_text("bf16"), brain)), ElementsAre(-1, 0x1p-133F));
  EXPECT_THAT(list(clipped_ste_mask(parse_quant_spec_text("log"), half)), ElementsAre(1, 1));
}

}  // namespace
}  // namespace detent

// Scales that affine takes from ranges of any magnitude that float32 has.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "detent/core/error.h"
#include "detent/formats/packing/encode.h"

namespace detent {
namespace {

constexpr float kMax = std::numeric_limits<float>::max();
constexpr float kLeast = std::numeric_limits<float>::denorm_min();
constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<Affine> affine_formats(int width) {
  return {{.width = width},
          {.width = width, .narrow_range = true},
          {.width = width, .symmetric = true},
          {.width = width, .symmetric = true, .narrow_range = true},
          {.width = width, .is_signed = false},
          {.width = width, .is_signed = false, .narrow_range = true}};
}

/// Every exponent near the ends of float32, some between.
std::vector<int> exponents() {
  std::vector<int> result;
  for (int e = -149; e <= 127; e += e < -120 || e >= 118 ? 1 : 7) result.push_back(e);
  return result;
}

/// Ranges whose largest magnitude has that exponent.
std::vector<Interval> ranges_of(int exponent) {
  const float least = std::ldexp(1.0F, exponent);
  const float most = exponent == 127 ? kMax : std::nextafter(2 * least, 0.0F);
  return {{0, least}, {-least, 0}, {-least, most}, {-most, most}, {-most / 3, least}, {least, most}};
}

/// Both ends, what lies between and beyond them.
Tensor samples_of(const Interval& range) {
  std::vector<float> values = {0, kLeast, -kLeast, kMax, -kMax, kInf, -kInf};
  for (int i = 0; i <= 8; ++i) {
    const double at = i / 8.0;
    values.push_back(
        static_cast<float>((1 - at) * static_cast<double>(range.low) + at * static_cast<double>(range.high)));
  }
  return Tensor::from<float>({static_cast<int64_t>(values.size())}, values);
}

void expect_usable(const Affine& format, const Interval& range) {
  const float scale = format.scale.at(0);
  ASSERT_TRUE(scale > 0 && scale <= kMax) << scale;
  ASSERT_NO_THROW(validate(Format(format), "test"));
  const QuantSpec spec{.format = format};
  const Tensor input = samples_of(range);
  const Tensor simulated = fake_quantize(spec, input);
  for (const float value : simulated.values<float>()) ASSERT_TRUE(std::isfinite(value)) << value;
  ASSERT_TRUE(std::ranges::equal(decode(encode(spec, input)).values<float>(), simulated.values<float>()));
}

/// Within one step: half of one for rounding, half of one for the rounding of the zero point.
void expect_holds(const Affine& format, const Interval& range) {
  const auto scale = static_cast<double>(format.scale.at(0));
  const Tensor input = samples_of(range);
  const Tensor simulated = fake_quantize({.format = format}, input);
  for (int64_t i = input.numel() - 9; i < input.numel(); ++i) {
    const auto x = static_cast<double>(input.values<float>()[static_cast<size_t>(i)]);
    ASSERT_LE(std::fabs(x - static_cast<double>(simulated.values<float>()[static_cast<size_t>(i)])), scale)
        << x;
  }
}

TEST(AffineCovering, EveryRangeOfFloat32GivesAUsableScale) {
  for (int width = 2; width <= 24; ++width) {
    for (const Affine& format : affine_formats(width)) {
      for (const int exponent : exponents()) {
        for (const Interval& range : ranges_of(exponent)) {
          SCOPED_TRACE(fmt::format("{}, [{}, {}]", format_text(format), range.low, range.high));
          for (const ScaleForm form : {ScaleForm::kFloat, ScaleForm::kPowerOfTwo})
            ASSERT_NO_FATAL_FAILURE(expect_usable(format.qparams_from_range({&range, 1}, form), range));
        }
      }
    }
  }
}

TEST(AffineCovering, PowersOfTwoAreTheSmallestThatHoldTheRangeWithinThoseOfFloat32) {
  for (const int width : {2, 3, 8, 16, 24}) {
    for (const Affine& format : affine_formats(width)) {
      for (const int exponent : exponents()) {
        for (const Interval& range : ranges_of(exponent)) {
          SCOPED_TRACE(fmt::format("{}, [{}, {}]", format_text(format), range.low, range.high));
          const Affine exact = format.qparams_from_range({&range, 1}, ScaleForm::kFloat);
          const Affine held = format.qparams_from_range({&range, 1}, ScaleForm::kPowerOfTwo);
          int power = 0;
          ASSERT_EQ(std::frexp(held.scale[0], &power), 0.5F);
          if (exact.scale[0] > 0x1p127F) {
            ASSERT_EQ(held.scale[0], 0x1p127F);
            continue;
          }
          ASSERT_GE(held.scale[0], exact.scale[0]);
          ASSERT_LE(held.scale[0], std::max(2 * exact.scale[0], 2 * kLeast));
          ASSERT_NO_FATAL_FAILURE(expect_holds(held, range));
        }
      }
    }
  }
}

TEST(AffineCovering, RangesAtTheEndsOfFloat32) {
  const auto scale_of = [](const Affine& format, Interval range) {
    return format.qparams_from_range({&range, 1}, ScaleForm::kPowerOfTwo).scale.at(0);
  };
  EXPECT_EQ(scale_of({}, {0, 1e-43F}), kLeast);
  EXPECT_EQ(scale_of({.symmetric = true}, {-1e-43F, 1e-43F}), kLeast);
  EXPECT_EQ(scale_of({.width = 2, .symmetric = true}, {-kMax, kMax}), 0x1p127F);
  EXPECT_EQ(scale_of({}, {-kMax, kMax}), 0x1p122F);  // 2^129 / 255 is above 2^121
}

}  // namespace
}  // namespace detent

#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "detent/core/fields.h"
#include "detent/formats/covering.h"
#include "detent/formats/float_bits.h"
#include "detent/formats/group.h"

namespace detent {

/// What the kernel needs: value = clamp(round(x / scale), low, high) * scale.
struct AffineParameters {
  float scale;
  float low;  // codes minus zero point
  float high;
  int zero_point;
  Interval unsaturated;  // inputs
};

/// Integers q of `width` bits with a scale and a zero point per group: q = clamp(round(x / scale) +
/// zero_point, lo, hi), a float32 division, ties to even; value (q - zero_point) * scale in float32. As ONNX
/// QuantizeLinear. One zero, no infinity, no NaN; saturates. A narrow range leaves out the lowest code.
/// Without `scale`, both come from the range of the group's finite elements, widened to include 0:
/// (max - min) / (hi - lo) and clamp(round(lo - min / scale), lo, hi); symmetric: max|x| / hi and 0.
/// A range of width 0 gives scale 1. Codes whose value is beyond float32 are not used.
struct Affine {
  static constexpr const char* kName = "affine";
  static constexpr std::array<const char*, 0> kAliases = {};
  static constexpr const char* kHelp = "an integer minus a zero point, times a scale";
  using Parameters = AffineParameters;
  static constexpr bool kRangePerChannel = true;

  int width = 8;
  bool is_signed = true;
  bool symmetric = false;
  bool narrow_range = false;
  std::vector<float> scale = {};
  std::vector<int> zero_point = {};

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("width", self.width, "bits a value", Between{2, 24});
    visit("signed", self.is_signed, "codes of both signs");
    visit("symmetric", self.symmetric, "derive a zero point of 0");
    visit("narrow_range", self.narrow_range, "do without the lowest code");
    visit("scale", self.scale, "step between values, one, or one a channel or group; empty: from the data",
          Between{1e-45, std::numeric_limits<float>::max()});
    visit("zero_point", self.zero_point, "code of 0, as many; empty: 0, or from the data");
  }

  int low_code() const { return (is_signed ? -(1 << (width - 1)) : 0) + (narrow_range ? 1 : 0); }
  int high_code() const { return (1 << (is_signed ? width - 1 : width)) - 1; }

  /// What a learned scale replaces. A zero point that is not given is 0 then.
  std::vector<float> given_scale() const { return scale; }
  Affine with_unit_scale() const {
    Affine codes = *this;
    codes.scale.assign(std::max<size_t>(zero_point.size(), 1), 1.0F);
    return codes;
  }
  double largest_code() const {
    const int least_zero = zero_point.empty() ? 0 : *std::ranges::min_element(zero_point);
    return std::max(high_code() - least_zero, 1);
  }

  /// With a scale and, unless symmetric, a zero point for each of `ranges`, as derived from data of that
  /// range.
  Affine covering(std::span<const Interval> ranges, ScaleForm form) const;

  /// Whether no group's zero point is anything but 0, whatever the data.
  bool zero_points_are_zero() const { return zero_point.empty() && (symmetric || !scale.empty()); }

  double bits() const { return width; }
  bool groups_are_channels() const { return false; }
  const char* channel_conflict() const {
    return scale.size() == 1 ? "key \"scale\" gives one for the whole tensor" : nullptr;
  }
  void validate(const std::string& where) const;
  std::vector<float> values(const std::string& where) const;
  Parameters parameters(const Group& group, uint64_t seed) const;

  bool operator==(const Affine&) const = default;

 private:
  Parameters of_range(Interval range, ScaleForm form = ScaleForm::kFloat) const;
  Parameters of(float group_scale, int group_zero_point) const;
};

inline void Affine::validate(const std::string& where) const {
  if (symmetric && !is_signed) {
    fail("{}: key \"symmetric\": got true, expected false where signed = false", where);
  }
  if (!zero_point.empty() && zero_point.size() != std::max<size_t>(scale.size(), 1)) {
    fail("{}: key \"zero_point\": got {} values, expected as many as \"scale\" has, {}", where,
         zero_point.size(), scale.size());
  }
  if (scale.empty() && !zero_point.empty()) {
    fail("{}: key \"zero_point\": got {}, expected \"scale\" beside it", where, zero_point.front());
  }
  for (const int zero : zero_point) {
    if (zero >= low_code() && zero <= high_code()) continue;
    fail("{}: key \"zero_point\": got {}, expected at least {} and at most {}", where, zero, low_code(),
         high_code());
  }
  if (zero_point.empty() && !scale.empty() && low_code() > 0) {
    fail("{}: key \"zero_point\": got none, which stands for 0, expected at least {}", where, low_code());
  }
}

inline std::vector<float> Affine::values(const std::string& where) const {
  if (scale.size() != 1) fail("{}: the values depend on the data: expected one \"scale\"", where);
  const Parameters held = of(scale.front(), zero_point.empty() ? 0 : zero_point.front());
  std::vector<float> result;
  for (float code = held.low; code <= held.high; code += 1) result.push_back(code * held.scale);
  return result;
}

inline Affine Affine::covering(std::span<const Interval> ranges, ScaleForm form) const {
  Affine result = *this;
  result.scale.clear();
  result.zero_point.clear();
  for (const Interval& range : ranges) {
    const Parameters held = of_range(format_detail::union_with_zero({&range, 1}), form);
    result.scale.push_back(held.scale);
    if (!symmetric) result.zero_point.push_back(held.zero_point);
  }
  return result;
}

inline Affine::Parameters Affine::parameters(const Group& group, uint64_t /*seed*/) const {
  if (scale.empty()) return of_range(group.range_with_zero());
  if (scale.size() > 1 && static_cast<int64_t>(scale.size()) != group.group_count()) {
    fail("affine: key \"scale\": got {} values, expected one, or one for each channel or group, {}",
         scale.size(), group.group_count());
  }
  const size_t index = scale.size() == 1 ? 0 : static_cast<size_t>(group.index());
  return of(scale[index], zero_point.empty() ? 0 : zero_point[index]);
}

// In double, rounded to float32 once. A scale that underflows becomes the smallest one.
inline Affine::Parameters Affine::of_range(Interval range, ScaleForm form) const {
  const auto low = static_cast<double>(range.low);
  const auto high = static_cast<double>(range.high);
  const double exact =
      symmetric ? std::max(-low, high) / high_code() : (high - low) / (high_code() - low_code());
  if (exact == 0) return of(1.0F, std::clamp(0, low_code(), high_code()));
  float step = std::max(static_cast<float>(exact), std::numeric_limits<float>::denorm_min());
  if (form == ScaleForm::kPowerOfTwo) step = format_detail::covering_power_of_two(exact);
  if (symmetric) return of(step, 0);
  const double zero = std::nearbyint(low_code() - low / static_cast<double>(step));
  return of(step, static_cast<int>(std::clamp<double>(zero, low_code(), high_code())));
}

inline Affine::Parameters Affine::of(float group_scale, int group_zero_point) const {
  constexpr float kMax = std::numeric_limits<float>::max();
  const double last = std::floor(static_cast<double>(kMax) / static_cast<double>(group_scale));
  const auto held = [&](int code) { return std::clamp<double>(code - group_zero_point, -last, last); };
  const double low = held(low_code());
  const double high = held(high_code());
  // Whether (code + 1/2) * scale still rounds to `code` depends on its parity and on the rounding of the
  // division: the last float32 that does is at most a few steps off.
  const auto edge = [&](double code) {
    const double sign = code < 0 ? -1 : 1;
    float x = round_down(
        std::min((std::fabs(code) + 0.5) * static_cast<double>(group_scale), static_cast<double>(kMax)));
    const auto leaves = [&](float at) {
      return std::nearbyint(static_cast<float>(sign) * at / group_scale) * static_cast<float>(sign) >
             static_cast<float>(sign * code);
    };
    while (x < kMax && !leaves(std::nextafter(x, kMax))) x = std::nextafter(x, kMax);
    while (leaves(x)) x = std::nextafter(x, -kMax);
    return static_cast<float>(sign) * x;
  };
  return {.scale = group_scale,
          .low = static_cast<float>(low),
          .high = static_cast<float>(high),
          .zero_point = group_zero_point,
          .unsaturated = {low == 0 ? -edge(0) : edge(low), edge(high)}};
}

}  // namespace detent

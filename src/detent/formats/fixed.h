#pragma once

#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "detent/core/fields.h"
#include "detent/formats/covering.h"
#include "detent/formats/float_bits.h"
#include "detent/formats/group.h"

namespace detent {

/// Where a value between two representable ones goes.
enum class Rounding { kNearest, kFloor };
constexpr std::array<const char*, 2> enum_names(Rounding) { return {"nearest", "floor"}; }

/// What the kernel needs: value = clamp(round(x * scale), low, high) * step.
struct FixedParameters {
  float scale;  // 2^frac_width
  float step;   // 2^-frac_width
  float low;    // codes
  float high;
  bool floor;
  Interval unsaturated;  // inputs
};

/// Fixed point (alias "integer"): codes q of `width` bits, value q * 2^-frac_width.
/// Encoding: two's complement when signed, else plain binary. No infinity, no NaN, one zero.
/// Range: [-2^(w-1), 2^(w-1) - 1] * 2^-f signed, [0, 2^w - 1] * 2^-f unsigned; saturates.
/// A bound that float32 cannot hold is the next float32 toward zero.
struct Fixed {
  static constexpr const char* kName = "fixed";
  static constexpr std::array<const char*, 1> kAliases = {"integer"};
  static constexpr const char* kHelp = "fixed point: an integer times a power of two";
  using Parameters = FixedParameters;
  static constexpr bool kRangePerChannel = false;

  int width = 8;
  std::optional<int> frac_width = std::nullopt;
  bool is_signed = true;
  Rounding rounding = Rounding::kNearest;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("width", self.width, "bits a value, sign included", Between{1, 32});
    visit("frac_width", self.frac_width, "bits behind the point, may be negative; NA: width / 2",
          Between{-96, 96});
    visit("signed", self.is_signed, "whether one bit is the sign");
    visit("rounding", self.rounding, "where a value between two representable ones goes; ties to even");
  }

  /// width / 2 rounded down, unless given.
  int fraction_bits() const { return frac_width.value_or(width / 2); }
  /// Smallest and largest code.
  double low_code() const { return is_signed ? -std::ldexp(1.0, width - 1) : 0.0; }
  double high_code() const { return std::ldexp(1.0, is_signed ? width - 1 : width) - 1.0; }

  /// What a learned scale replaces: values are codes times 2^-frac_width.
  std::vector<float> given_scale() const { return {power_of_two(-fraction_bits())}; }
  Fixed with_unit_scale() const {
    Fixed codes = *this;
    codes.frac_width = 0;
    return codes;
  }
  double largest_code() const { return high_code(); }

  /// With the most bits behind the point that still hold all of `ranges` without saturating, as far as the
  /// format has codes of that sign; unchanged when there is nothing but 0 to hold.
  Fixed covering(std::span<const Interval> ranges, ScaleForm /*form*/) const;

  double bits() const { return width; }
  bool groups_are_channels() const { return false; }
  const char* channel_conflict() const { return "fixed point derives nothing from the data"; }
  void validate(const std::string&) const {}
  std::vector<float> values(const std::string& where) const;

  Parameters parameters(const Group&, uint64_t /*seed*/) const {
    return {.scale = power_of_two(fraction_bits()),
            .step = power_of_two(-fraction_bits()),
            .low = round_toward_zero(low_code()),
            .high = round_toward_zero(high_code()),
            .floor = rounding == Rounding::kFloor,
            .unsaturated = unsaturated()};
  }

  /// Inputs whose rounded code needs no clamping.
  Interval unsaturated() const;

  bool operator==(const Fixed&) const = default;
};

inline Fixed Fixed::covering(std::span<const Interval> ranges, ScaleForm /*form*/) const {
  const auto [low, high] = format_detail::union_with_zero(ranges);
  constexpr int kMost = 96;
  int shift = kMost + 1;
  const auto hold = [&](double magnitude, double code) {
    if (magnitude > 0 && code > 0) shift = std::min(shift, format_detail::largest_shift(code, magnitude));
  };
  hold(static_cast<double>(high), high_code());
  hold(-static_cast<double>(low), -low_code());
  Fixed result = *this;
  if (shift <= kMost || low < 0 || high > 0) result.frac_width = std::clamp(shift, -kMost, kMost);
  return result;
}

inline std::vector<float> Fixed::values(const std::string&) const {
  std::vector<float> result;
  for (double code = low_code(); code <= high_code(); code += 1) {
    result.push_back(static_cast<float>(code) * power_of_two(-fraction_bits()));
  }
  return result;
}

// To nearest, codes round into [low, high] from [low - 1/2, high + 1/2]; a tie at an end is outside when the
// end is odd, because it then goes to the even code beyond. Downward, they come from [low, high + 1), the
// right end open.
inline Interval Fixed::unsaturated() const {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto odd = [](double code) { return std::fmod(code, 2.0) != 0.0; };
  const bool to_floor = rounding == Rounding::kFloor;
  const double low = to_floor ? low_code() : low_code() - 0.5;
  const double high = high_code() + (to_floor ? 1.0 : 0.5);
  float least = -round_down(-low);
  float greatest = round_down(high);
  if (!to_floor && odd(low_code()) && static_cast<double>(least) == low)
    least = std::nextafter(least, kInfinity);
  if ((to_floor || odd(high_code())) && static_cast<double>(greatest) == high) {
    greatest = std::nextafter(greatest, -kInfinity);
  }
  const float step = power_of_two(-fraction_bits());
  return {least * step, greatest * step};
}

}  // namespace detent

#pragma once

#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "detent/core/fields.h"
#include "detent/formats/covering.h"
#include "detent/formats/float_bits.h"
#include "detent/formats/group.h"
#include "detent/formats/minifloat.h"

namespace detent {

/// What the kernel needs.
struct LogParameters {
  float smallest;  // magnitudes
  float largest;
  Interval unsaturated;  // inputs
};

/// float32 of mantissa bits 0x3504F3 is the last below sqrt(2) = 1.41421356237...: it and less round down.
inline constexpr float kBelowSqrt2 = 0x1.6A09E6p0F;

/// The powers of two from 2^min_exponent to 2^max_exponent, both within float32's -149..127.
inline LogParameters log_parameters(int min_exponent, int max_exponent) {
  const float largest = std::ldexp(1.0F, max_exponent);
  const float edge = round_down(static_cast<double>(kBelowSqrt2) * static_cast<double>(largest));
  return {.smallest = std::ldexp(1.0F, min_exponent), .largest = largest, .unsaturated = {-edge, edge}};
}

/// Powers of two: sign and e + bias in width - 1 bits, value +-2^e, -bias <= e <= 2^(width-1) - 1 - bias.
/// e = log2|x| rounded to nearest: 2^k * m with 1 <= m < 2 goes up when m > sqrt(2), which no float32 equals.
/// No zero, no infinity, no NaN code: zeros give +2^-bias, smaller magnitudes +-2^-bias, larger ones and
/// infinities the largest. float32 must hold every value, if as a subnormal: 2^(width-1) - 128 <= bias <=
/// 149.
struct Log {
  static constexpr const char* kName = "log";
  static constexpr std::array<const char*, 0> kAliases = {};
  static constexpr const char* kHelp = "powers of two";
  using Parameters = LogParameters;
  static constexpr bool kRangePerChannel = false;

  int width = 8;
  std::optional<int> exponent_bias = std::nullopt;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("width", self.width, "bits a value, sign included", Between{2, 9});
    visit("exponent_bias", self.exponent_bias, "exponent code of 2^0; NA: 2^(width - 2) - 1",
          Between{-126, 149});
  }

  int bias() const { return exponent_bias.value_or((1 << (width - 2)) - 1); }
  int max_exponent() const { return (1 << (width - 1)) - 1 - bias(); }

  /// With the largest exponent bias, that is the finest step, whose largest value holds all of `ranges`;
  /// unchanged when there is nothing but 0 to hold.
  Log covering(std::span<const Interval> ranges, ScaleForm /*form*/) const {
    return format_detail::with_covering_bias(*this, std::ldexp(1.0, max_exponent()), (1 << (width - 1)) - 128,
                                             149, ranges);
  }

  double bits() const { return width; }
  bool groups_are_channels() const { return false; }
  const char* channel_conflict() const { return "powers of two derive nothing from the data"; }
  void validate(const std::string& where) const {
    format_detail::check_exponent_bias(exponent_bias, bias(), (1 << (width - 1)) - 128, 149, where);
  }
  std::vector<float> values(const std::string&) const {
    std::vector<float> result;
    for (int e = max_exponent(); e >= -bias(); --e) result.push_back(-std::ldexp(1.0F, e));
    for (int e = -bias(); e <= max_exponent(); ++e) result.push_back(std::ldexp(1.0F, e));
    return result;
  }
  Parameters parameters(const Group&, uint64_t /*seed*/) const {
    return log_parameters(-bias(), max_exponent());
  }

  bool operator==(const Log&) const = default;
};

}  // namespace detent

#pragma once

#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "detent/core/fields.h"
#include "detent/formats/covering.h"
#include "detent/formats/group.h"
#include "detent/formats/minifloat_grid.h"

namespace detent {

inline constexpr const char* kMinifloatDerivesNothing = "minifloats derive nothing from the data";

/// Small floating point with every code in use: sign, E exponent bits, M = width - 1 - E mantissa bits.
/// Exponent code c > 0: (1 + m / 2^M) * 2^(c - bias); c = 0: subnormals m / 2^M * 2^(1 - bias). The all-ones
/// exponent is an ordinary binade. No infinity, no NaN code, zeros of both signs.
/// Range: +-(2 - 2^-M) * 2^(2^E - 1 - bias), smallest step 2^(1 - bias - M); saturates, ties to the even
/// code. float32 must hold every value, if as a subnormal: M <= 22 and 2^E - 128 <= bias <= 150 - M.
struct MinifloatIeee {
  static constexpr const char* kName = "minifloat_ieee";
  static constexpr std::array<const char*, 0> kAliases = {};
  static constexpr const char* kHelp = "small floating point: an implicit leading bit, no reserved codes";
  using Parameters = MinifloatParameters;
  static constexpr bool kRangePerChannel = false;

  int width = 8;
  int exponent_width = 4;
  std::optional<int> exponent_bias = std::nullopt;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("width", self.width, "bits a value: sign, exponent, mantissa", Between{2, 31});
    visit("exponent_width", self.exponent_width, "bits of the exponent", Between{1, 8});
    visit("exponent_bias", self.exponent_bias, "exponent code of 2^0; NA: 2^(exponent_width - 1) - 1",
          Between{-128, 150});
  }

  int mantissa_bits() const { return width - 1 - exponent_width; }
  int bias() const { return exponent_bias.value_or((1 << (exponent_width - 1)) - 1); }
  /// Of a valid format.
  MinifloatGrid grid() const {
    const int top_exponent = (1 << exponent_width) - 1 - bias();
    const float top_code = static_cast<float>((2 << mantissa_bits()) - 1);
    return {.mantissa_bits = mantissa_bits(),
            .min_exponent = 1 - bias(),
            .largest = std::ldexp(top_code, top_exponent - mantissa_bits())};
  }

  /// With the largest exponent bias, that is the finest step, whose largest value holds all of `ranges`;
  /// unchanged when there is nothing but 0 to hold.
  MinifloatIeee covering(std::span<const Interval> ranges, ScaleForm /*form*/) const {
    return format_detail::with_covering_bias(*this, grid().largest, (1 << exponent_width) - 128,
                                             150 - mantissa_bits(), ranges);
  }

  double bits() const { return width; }
  bool groups_are_channels() const { return false; }
  const char* channel_conflict() const { return kMinifloatDerivesNothing; }
  void validate(const std::string& where) const;
  std::vector<float> values(const std::string&) const { return minifloat_values(grid()); }
  Parameters parameters(const Group&, uint64_t /*seed*/) const { return minifloat_parameters(grid()); }

  bool operator==(const MinifloatIeee&) const = default;
};

namespace format_detail {

/// Throws Error on exponent bits that leave a number of mantissa bits outside [fewest, most].
inline void check_mantissa_bits(int width, int exponent_width, int fewest, int most,
                                const std::string& where) {
  const int mantissa_bits = width - 1 - exponent_width;
  if (mantissa_bits >= fewest && mantissa_bits <= most) return;
  fail(
      "{}: key \"exponent_width\": got {}, which leaves {} mantissa bits of width {}, expected at least {} "
      "and at most {}",
      where, exponent_width, mantissa_bits, width, fewest, most);
}

/// Throws Error on a bias outside [low, high].
inline void check_exponent_bias(const std::optional<int>& given, int bias, int low, int high,
                                const std::string& where) {
  if (bias >= low && bias <= high) return;
  fail(
      "{}: key \"exponent_bias\": got {}{}, expected at least {} and at most {}, so that float32 holds all "
      "values",
      where, given ? "" : "NA, which stands for ", bias, low, high);
}

}  // namespace format_detail

inline void MinifloatIeee::validate(const std::string& where) const {
  format_detail::check_mantissa_bits(width, exponent_width, 0, 22, where);
  format_detail::check_exponent_bias(exponent_bias, bias(), (1 << exponent_width) - 128,
                                     150 - mantissa_bits(), where);
}

}  // namespace detent

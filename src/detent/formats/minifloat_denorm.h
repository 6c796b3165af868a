#pragma once

#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "detent/core/fields.h"
#include "detent/formats/group.h"
#include "detent/formats/minifloat.h"

namespace detent {

/// Small floating point without implicit bit: sign, E exponent bits, M = width - 1 - E mantissa bits (at
/// least one), value m * 2^(e - M) with 0 <= m < 2^M and -bias <= e <= 2^E - 1 - bias. No infinity, no NaN
/// code; a value may have several codes, that with the largest m is the canonical one. Range: +-(1 - 2^-M) *
/// 2^(2^E - 1 - bias), smallest step 2^(-bias - M); saturates, ties to the even m. float32 must hold every
/// value, if as a subnormal: M <= 22 and 2^E - 129 <= bias <= 149 - M.
struct MinifloatDenorm {
  static constexpr const char* kName = "minifloat_denorm";
  static constexpr std::array<const char*, 0> kAliases = {};
  static constexpr const char* kHelp = "small floating point without an implicit bit";
  using Parameters = MinifloatParameters;
  static constexpr bool kRangePerChannel = false;

  int width = 8;
  int exponent_width = 4;
  std::optional<int> exponent_bias = std::nullopt;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("width", self.width, "bits a value: sign, exponent, mantissa", Between{3, 31});
    visit("exponent_width", self.exponent_width, "bits of the exponent", Between{1, 8});
    visit("exponent_bias", self.exponent_bias, "exponent code of 2^0; NA: 2^(exponent_width - 1) - 1",
          Between{-127, 148});
  }

  int mantissa_bits() const { return width - 1 - exponent_width; }
  int bias() const { return exponent_bias.value_or((1 << (exponent_width - 1)) - 1); }
  /// Of a valid format: 1/2 <= m / 2^M < 1 makes the first mantissa bit the leading one, an exponent lower.
  MinifloatGrid grid() const {
    const int top_exponent = (1 << exponent_width) - 1 - bias();
    const auto top_code = static_cast<float>((1 << mantissa_bits()) - 1);
    return {.mantissa_bits = mantissa_bits() - 1,
            .min_exponent = -bias() - 1,
            .largest = std::ldexp(top_code, top_exponent - mantissa_bits())};
  }

  /// With the largest exponent bias, that is the finest step, whose largest value holds all of `ranges`;
  /// unchanged when there is nothing but 0 to hold.
  MinifloatDenorm covering(std::span<const Interval> ranges, ScaleForm /*form*/) const {
    return format_detail::with_covering_bias(*this, grid().largest, (1 << exponent_width) - 129,
                                             149 - mantissa_bits(), ranges);
  }

  double bits() const { return width; }
  bool groups_are_channels() const { return false; }
  const char* channel_conflict() const { return kMinifloatDerivesNothing; }
  void validate(const std::string& where) const {
    format_detail::check_mantissa_bits(width, exponent_width, 1, 22, where);
    format_detail::check_exponent_bias(exponent_bias, bias(), (1 << exponent_width) - 129,
                                       149 - mantissa_bits(), where);
  }
  std::vector<float> values(const std::string&) const { return minifloat_values(grid()); }
  Parameters parameters(const Group&, uint64_t /*seed*/) const { return minifloat_parameters(grid()); }

  bool operator==(const MinifloatDenorm&) const = default;
};

}  // namespace detent

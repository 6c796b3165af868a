#pragma once

#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "detent/core/fields.h"
#include "detent/formats/elements/element.h"
#include "detent/formats/elements/qparams_from_range.h"
#include "detent/formats/float_bits.h"

namespace detent {

/// Parameters of the kernel.
struct LogParameters {
  float smallest;  // magnitudes
  float largest;
  int min_exponent;  // of the smallest
  int width;         // of a code

  static ElementKernels<LogParameters> kernels();
};

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
  static constexpr bool kHasNan = false;
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
  Log qparams_from_range(std::span<const Interval> ranges, ScaleForm form) const;

  double bits() const { return width; }
  bool groups_are_channels() const { return false; }
  const char* channel_conflict() const { return "powers of two derive nothing from the data"; }
  void validate(const std::string& where) const;
  std::vector<float> values(const std::string& where) const;
  Parameters parameters() const;
  Interval unsaturated(const Parameters& parameters) const;

  bool operator==(const Log&) const = default;
};

}  // namespace detent

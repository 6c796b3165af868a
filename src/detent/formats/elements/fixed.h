#pragma once

#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "detent/core/fields.h"
#include "detent/formats/elements/element.h"
#include "detent/formats/elements/qparams_from_range.h"
#include "detent/formats/float_bits.h"
#include "detent/formats/rounding.h"

namespace detent {

/// Parameters of the kernel: value = clamp(round(x * scale), low, high) * step.
struct FixedParameters {
  float scale;  // 2^frac_width
  float step;   // 2^-frac_width
  float low;    // codes
  float high;
  bool floor;
  int width;  // of a code
  bool is_signed;

  static ElementKernels<FixedParameters> kernels();
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
  static constexpr bool kHasNan = false;

  int width = 8;
  std::optional<int> frac_width = std::nullopt;
  bool is_signed = true;
  Rounding rounding = Rounding::kNearest;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("width", self.width, "bits a value, sign included", Between{1, 32});
    visit("frac_width", self.frac_width, "bits after the point, may be negative; NA: width / 2",
          Between{-96, 96});
    visit("signed", self.is_signed, "whether one bit is the sign");
    visit("rounding", self.rounding, "where a value between two representable ones goes; ties to even",
          up_to(Rounding::kFloor));
  }

  /// width / 2 rounded down, unless given.
  int fraction_bits() const { return frac_width.value_or(width / 2); }
  /// Smallest and largest code.
  double low_code() const;
  double high_code() const;

  /// The scale that a learned one replaces: values are codes times 2^-frac_width.
  std::vector<float> given_scale() const { return {power_of_two(-fraction_bits())}; }
  Fixed with_unit_scale() const {
    Fixed codes = *this;
    codes.frac_width = 0;
    return codes;
  }
  double largest_code() const { return high_code(); }

  /// With the most fraction bits that hold all of `ranges` without saturating, as far as the format has codes
  /// of that sign; unchanged if there is only 0 to hold.
  Fixed qparams_from_range(std::span<const Interval> ranges, ScaleForm /*form*/) const;

  double bits() const { return width; }
  bool groups_are_channels() const { return false; }
  const char* channel_conflict() const { return "fixed point derives nothing from the data"; }
  void validate(const std::string&) const {}
  std::vector<float> values(const std::string& where) const;

  Parameters parameters() const;
  /// Inputs whose rounded code needs no clamping.
  Interval unsaturated(const Parameters& parameters) const;

  bool operator==(const Fixed&) const = default;
};

}  // namespace detent

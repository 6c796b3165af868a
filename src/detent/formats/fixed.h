#pragma once

#include <array>
#include <optional>

#include "detent/core/fields.h"

namespace detent {

/// Where a value between two representable ones goes.
enum class Rounding { kNearest, kFloor };
constexpr std::array<const char*, 2> enum_names(Rounding) { return {"nearest", "floor"}; }

/// Fixed point (alias "integer"): codes q of `width` bits, value q * 2^-frac_width.
/// Encoding: two's complement when signed, else plain binary. No infinity, no NaN, one zero.
/// Range: [-2^(w-1), 2^(w-1) - 1] * 2^-f signed, [0, 2^w - 1] * 2^-f unsigned; saturates.
/// A bound that float32 cannot hold is the next float32 toward zero.
struct Fixed {
  static constexpr const char* kName = "fixed";
  static constexpr const char* kHelp = "fixed point: an integer times a power of two";

  int width = 8;
  std::optional<int> frac_width;
  bool is_signed = true;
  Rounding rounding = Rounding::kNearest;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("width", self.width, "bits a value, sign included", Between{1, 32});
    visit("frac_width", self.frac_width, "bits behind the point, may be negative; NA: width / 2", Between{-96, 96});
    visit("signed", self.is_signed, "whether one bit is the sign");
    visit("rounding", self.rounding, "where a value between two representable ones goes; ties to even");
  }

  /// width / 2 rounded down, unless given.
  int fraction_bits() const { return frac_width.value_or(width / 2); }

  bool operator==(const Fixed&) const = default;
};

}  // namespace detent

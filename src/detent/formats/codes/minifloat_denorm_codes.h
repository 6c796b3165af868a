#pragma once

#include <algorithm>
#include <cmath>

#include "detent/formats/codes/coding.h"
#include "detent/formats/codes/minifloat_index.h"
#include "detent/formats/minifloat_denorm.h"

namespace detent {

/// Sign, e + bias, then the M bits of m. The largest m that gives a value is the index of the grid, whose
/// leading bit is m's first.
template <>
struct Coding<MinifloatDenorm> {
  static std::vector<ParameterStream> streams(const MinifloatDenorm&) { return {}; }
  static void store(const MinifloatDenorm&, const MinifloatParameters&, double*) {}

  class Coder {
   public:
    static constexpr bool kHasNan = false;

    Coder(const MinifloatDenorm& format, const double*)
        : index_(format.grid()),
          width_(format.width),
          mantissa_bits_(format.mantissa_bits()),
          first_exponent_(-format.bias() - format.mantissa_bits()),
          sign_(1U << (format.width - 1)) {}

    uint32_t code_of(float value) const {
      const uint32_t sign = (std::bit_cast<uint32_t>(value) >> 31) << (width_ - 1);
      const uint32_t index = index_.index_of(std::fabs(value));
      const uint32_t leading = 1U << (mantissa_bits_ - 1);
      const uint32_t exponent = index < leading ? 0U : (index >> (mantissa_bits_ - 1)) - 1;
      const uint32_t mantissa = index < leading ? index : leading | (index & (leading - 1));
      return sign | (exponent << mantissa_bits_) | mantissa;
    }

    // m * 2^k, the power in two factors: together they may leave float32's exponents.
    float value_of(uint32_t code) const {
      const uint32_t magnitude = code & (sign_ - 1);
      const int exponent = static_cast<int>(magnitude >> mantissa_bits_) + first_exponent_;
      const int held = std::max(exponent, -100);
      const auto mantissa = static_cast<float>(magnitude & ((1U << mantissa_bits_) - 1));
      const float value = mantissa * power_of_two(held) * power_of_two(exponent - held);
      return (code & sign_) != 0 ? -value : value;
    }

   private:
    MinifloatIndex index_;
    int width_;
    int mantissa_bits_;
    int first_exponent_;  // of m = 1 with exponent code 0
    uint32_t sign_;
  };
};

}  // namespace detent

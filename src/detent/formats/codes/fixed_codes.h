#pragma once

#include "detent/formats/codes/coding.h"
#include "detent/formats/fixed.h"

namespace detent {

/// Two's complement when signed, else plain binary. Of codes wider than 24 bits value_of gives the nearest
/// float32; encode only writes those that float32 holds.
template <>
struct Coding<Fixed> {
  static std::vector<ParameterStream> streams(const Fixed&) { return {}; }
  static void store(const Fixed&, const FixedParameters&, double*) {}

  class Coder {
   public:
    static constexpr bool kHasNan = false;

    Coder(const Fixed& format, const double*)
        : scale_(power_of_two(format.fraction_bits())),
          step_(power_of_two(-format.fraction_bits())),
          mask_(code_mask(format.width)),
          sign_(format.is_signed ? 1U << (format.width - 1) : 0U) {}

    // The conversion is one to int32: codes of 2^31 and more, which only unsigned 32 bits have, are moved
    // into its range and back.
    uint32_t code_of(float value) const {
      const float code = value * scale_;
      const bool upper = code >= 0x1p31F;
      const auto integer = static_cast<int32_t>(upper ? code - 0x1p31F : code);
      return (static_cast<uint32_t>(integer) ^ (upper ? 0x80000000U : 0U)) & mask_;
    }

    // (c ^ sign) - sign extends the sign.
    float value_of(uint32_t code) const {
      const uint32_t extended = (code ^ sign_) - sign_;
      const float whole =
          sign_ != 0 ? static_cast<float>(static_cast<int32_t>(extended)) : static_cast<float>(extended);
      return whole * step_;
    }

   private:
    float scale_;
    float step_;
    uint32_t mask_;
    uint32_t sign_;
  };
};

}  // namespace detent

#pragma once

#include <cmath>
#include <limits>
#include <type_traits>

#include "detent/formats/codes/all.h"

namespace detent {

/// How the elements of blocks stand in their codes: what is needed to decode many at once.
struct ElementForm {
  int width = 0;
  /// Two's complement: a multiple of 2^min_exponent. Else a sign, and the number of a magnitude among those
  /// of a minifloat (see MinifloatIndex), counted from `first`.
  bool twos_complement = false;
  int mantissa_bits = 0;
  int min_exponent = 0;
  int first = 0;
  /// The last number. Behind it are an infinity where the mantissa is 0, and NaN.
  int32_t largest = std::numeric_limits<int32_t>::max();
  /// Whether float32 has all the normal magnitudes as normal ones, and the one before them too.
  bool normal = true;
};

template <class F, class... Formats>
inline constexpr bool kIsOneOf = (std::is_same_v<F, Formats> || ...);

/// Of a format that BlockCoding::elements gives.
inline ElementForm element_form(const Format& elements) {
  constexpr int kLowest = -125;
  constexpr int kHighest = 126;
  return std::visit(
      []<class F>(const F& format) -> ElementForm {
        const int width = static_cast<int>(format.bits());
        if constexpr (std::is_same_v<F, Fixed>) {
          return {.width = width, .twos_complement = true, .min_exponent = -format.fraction_bits()};
        } else if constexpr (std::is_same_v<F, Log>) {
          const int last = (1 << (width - 1)) - 1 - format.bias();
          return {.width = width,
                  .min_exponent = -format.bias(),
                  .first = 1,
                  .normal = -format.bias() >= kLowest && last <= kHighest};
        } else if constexpr (kIsOneOf<F, MinifloatIeee, Fp8E4M3Fn, Fp8E5M2, Fp6E3M2, Fp6E2M3, Fp4E2M1>) {
          const MinifloatGrid grid = format.grid();
          ElementForm form{.width = width,
                           .mantissa_bits = grid.mantissa_bits,
                           .min_exponent = grid.min_exponent,
                           .normal = grid.min_exponent >= kLowest && std::ilogb(grid.largest) <= kHighest};
          if constexpr (Coding<F>::Coder::kHasNan)
            form.largest = static_cast<int32_t>(MinifloatIndex(grid).index_of(grid.largest));
          return form;
        } else {
          DETENT_CHECK(false, "{} as elements of blocks", F::kName);
        }
      },
      elements);
}

}  // namespace detent

#include "detent/formats/blocks/mx.h"

#include <cmath>

namespace detent {

double Mx::bits() const {
  return std::visit([](const auto& format) { return format.bits(); }, elements());
}

BlockElement Mx::elements() const {
  switch (element) {
    case MxElement::kE4M3:
      return Fp8E4M3Fn();
    case MxElement::kE5M2:
      return Fp8E5M2();
    case MxElement::kE3M2:
      return Fp6E3M2();
    case MxElement::kE2M3:
      return Fp6E2M3();
    case MxElement::kE2M1:
      return Fp4E2M1();
    case MxElement::kInt8:
      return Fixed{.width = 8, .frac_width = 6};
  }
  DETENT_CHECK(false, "element {}", static_cast<int>(element));
}

// Multiples of 1/64 are a minifloat whose values are all subnormal.
BlockGrid Mx::grid() const {
  const MinifloatGrid grid = std::visit(
      []<class F>(const F& format) -> MinifloatGrid {
        if constexpr (requires { format.grid(); }) {
          return format.grid();
        } else {
          return {.mantissa_bits = 6, .min_exponent = 0, .largest = 127.0F / 64, .one_zero = true};
        }
      },
      elements());
  return {.mantissa_bits = grid.mantissa_bits,
          .min_exponent = grid.min_exponent,
          .largest = static_cast<double>(grid.largest),
          .offset = -std::ilogb(grid.largest),
          .lowest = -127,
          .highest = 127,
          .round_up = false,
          .one_zero = grid.one_zero};
}

BlockScales Mx::scales(const double* /*numbers*/) const {
  BlockGrid of_elements = grid();
  if (element == MxElement::kInt8) of_elements.largest = 2;  // -128
  return grid_scales(of_elements);
}

}  // namespace detent

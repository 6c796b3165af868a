#pragma once

#include "detent/formats/codes/block_coding.h"

namespace detent {

/// OCP MX v1.0: elements as OFP8 and MX define them, int8 in two's complement, where -128 is never written.
/// Scales: E8M0, the exponent + 127. Its NaN, 255, is no scale here: NaN are elements, where those have one.
template <>
struct BlockCoding<Mx> : BlockCodingWithoutStreams<Mx> {
  static constexpr const char* kScaleStream = "scales";
  static Format elements(const Mx& format) {
    switch (format.element) {
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
    DETENT_CHECK(false, "element {}", static_cast<int>(format.element));
  }
  static BlockScales scales(const Mx& format, const double*) {
    BlockGrid grid = format.grid();
    if (format.element == MxElement::kInt8) grid.largest = 2;  // -128
    return grid_scales(grid);
  }
};

}  // namespace detent

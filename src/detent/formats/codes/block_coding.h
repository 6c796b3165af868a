#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "detent/formats/all.h"
#include "detent/formats/codes/coding.h"

namespace detent {

/// What a code of a block's scale stands for: the elements of the block are its values over `factor`.
struct BlockScale {
  double factor = 0;
  /// Where the kernels may multiply with these in float32: from the values that simulate gives to elements,
  /// from elements to values.
  bool plain_element = false;
  bool plain_value = false;
  float to_element = 0;
  float to_value = 0;
  /// Values that float32 cannot hold become the next toward zero, else the nearest; at most the largest.
  bool toward_zero = true;

  /// Of a value that simulate gives, for a power of two. The largest float32 stands for the power above it:
  /// no grid of fewer than 24 bits has it as a value of its own.
  float element_of(float value) const {
    constexpr float kLargest = std::numeric_limits<float>::max();
    const float magnitude = std::fabs(value);
    const double exact = magnitude >= kLargest ? 0x1p128 : static_cast<double>(magnitude);
    return std::copysign(static_cast<float>(exact / factor), value);
  }

  /// Infinities and NaN stay what they are.
  float value_of(float element) const {
    constexpr double kLargest = std::numeric_limits<float>::max();
    if (!std::isfinite(element)) return element;
    const double held = std::clamp(static_cast<double>(element) * factor, -kLargest, kLargest);
    return toward_zero ? round_toward_zero(held) : static_cast<float>(held);
  }
};

/// By code, from 0; there are no other codes. At most 256.
using BlockScales = std::vector<BlockScale>;

/// How blocks of format F become codes. To be given for each block format, in codes/:
///
///     template <>
///     struct BlockCoding<F> {
///       static constexpr const char* kScaleStream;                   // F::shared_bits() bits a block
///       static Format elements(const F&);                            // whose codes the elements have
///       static std::vector<ParameterStream> streams(const F&);       // of the tensor
///       static void store(const F&, const F::Parameters&, double* numbers);
///       static BlockScales scales(const F&, const double* numbers);  // by the code of a BlockEntry
///     };
template <class F>
struct BlockCoding;

/// Of a format that stores nothing for the tensor.
template <class F>
struct BlockCodingWithoutStreams {
  static std::vector<ParameterStream> streams(const F&) { return {}; }
  static void store(const F&, const typename F::Parameters&, double*) {}
};

/// 2^exponent, for elements that are multiples of `step`, up to `largest`.
inline BlockScale power_of_two_scale(int exponent, double step, double largest) {
  constexpr int kFloatExponents = 127;  // in both directions, if as a subnormal
  const double factor = double_power_of_two(exponent);
  const bool in_float = std::abs(exponent) <= kFloatExponents &&
                        largest * factor <= static_cast<double>(std::numeric_limits<float>::max());
  BlockScale scale{
      .factor = factor, .plain_element = in_float, .plain_value = in_float && step * factor >= 0x1p-149};
  if (in_float) {
    scale.to_element = static_cast<float>(1 / factor);
    scale.to_value = static_cast<float>(factor);
  }
  return scale;
}

/// Of elements on the grid times 2^shift.
inline BlockScales grid_scales(const BlockGrid& grid, int shift = 0) {
  const double step = double_power_of_two(grid.min_exponent - grid.mantissa_bits + shift);
  const double largest = grid.largest * double_power_of_two(shift);
  BlockScales scales;
  for (int code = 0; code <= grid.highest - grid.lowest; ++code) {
    scales.push_back(power_of_two_scale(grid.exponent_of_code(code) - shift, step, largest));
  }
  return scales;
}

}  // namespace detent

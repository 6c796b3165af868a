#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "detent/core/fields.h"
#include "detent/core/tensor.h"

namespace detent {

/// Of scales that the kernel divides by.
inline constexpr Between kAboveZero = {1e-45, std::numeric_limits<float>::max()};

/// Numbers that decoding needs beside the codes, `per_group` of them for each group, one after another. Each
/// format says how its doubles map to them without loss.
struct ParameterStream {
  std::string name;  // "scales"
  DType dtype;       // float32, uint8 or int32
  int per_group = 1;
  Between allowed = {};  // decoding refuses other numbers, and what is not finite
};

/// How the values of format F become integer codes and back. To be given for each format, in codes/:
///
///     template <>
///     struct Coding<F> {
///       static std::vector<ParameterStream> streams(const F&);
///       static void store(const F&, const F::Parameters&, double* numbers);  // all streams of one group
///       class Coder;                                                         // of one group
///     };
///
/// with Coder(const F&, const double* numbers) and
///
///     uint32_t code_of(float value) const;  // of a representable value
///     float value_of(uint32_t code) const;  // of any code of F::bits() bits
///     static constexpr bool kHasNan;        // whether code_of(NaN) is a code that decodes to NaN
///
/// code_of and value_of have no branches on the value, so that loops over them can be vectorised.
template <class F>
struct Coding;

inline int numbers_per_group(const std::vector<ParameterStream>& streams) {
  int count = 0;
  for (const ParameterStream& stream : streams) count += stream.per_group;
  return count;
}

/// The lowest `width` bits, 0 <= width <= 32.
constexpr uint32_t code_mask(int width) { return static_cast<uint32_t>((uint64_t{1} << width) - 1); }

}  // namespace detent

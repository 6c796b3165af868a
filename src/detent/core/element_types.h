#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "detent/core/error.h"
#include "detent/core/tensor.h"

namespace detent {

/// Whether C++ has arithmetic in the type: not for 16- and 8-bit floats.
inline bool is_number_type(DType dtype) {
  return !is_floating_point(dtype) || dtype == DType::kFloat32 || dtype == DType::kFloat64;
}

/// visit(T()) with the C++ type of the elements: bool, an integer, float or double. Throws Error for 16- and
/// 8-bit floats.
template <class Visit>
decltype(auto) visit_numbers(DType dtype, Visit&& visit) {
  switch (dtype) {
    // The same but for the type. NOLINTNEXTLINE(bugprone-branch-clone)
    case DType::kBool:
      return visit(bool());
    case DType::kUInt8:
      return visit(uint8_t());
    case DType::kInt8:
      return visit(int8_t());
    case DType::kInt16:
      return visit(int16_t());
    case DType::kInt32:
      return visit(int32_t());
    case DType::kInt64:
      return visit(int64_t());
    case DType::kFloat32:
      return visit(float());
    case DType::kFloat64:
      return visit(double());
    default:
      fail("nothing is computed in {}", dtype_name(dtype));
  }
}

/// The largest finite value of a float type.
template <class T>
constexpr float largest_float_within() {
  constexpr int kFloatDigits = std::numeric_limits<float>::digits;
  constexpr T kLargest = std::numeric_limits<T>::max();
  if constexpr (std::is_floating_point_v<T>) {
    return std::numeric_limits<float>::max();
  } else if constexpr (std::numeric_limits<T>::digits > kFloatDigits) {
    return static_cast<float>(kLargest - (kLargest >> kFloatDigits));
  } else {
    return static_cast<float>(kLargest);
  }
}

/// visit(Word()) with an unsigned integer of the elements' size, for moving them.
template <class Visit>
decltype(auto) visit_words(DType dtype, Visit&& visit) {
  switch (dtype_size(dtype)) {
    // The same but for the type. NOLINTNEXTLINE(bugprone-branch-clone)
    case sizeof(uint8_t):
      return visit(uint8_t());
    case sizeof(uint16_t):
      return visit(uint16_t());
    case sizeof(uint32_t):
      return visit(uint32_t());
    default:
      return visit(uint64_t());
  }
}

template <class Word>
const Word* words_of(const Tensor& tensor) {
  return reinterpret_cast<const Word*>(tensor.bytes().data());
}
template <class Word>
Word* words_of(Tensor& tensor) {
  return reinterpret_cast<Word*>(tensor.bytes().data());
}

}  // namespace detent

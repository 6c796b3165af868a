#include "detent/workflows/network_values.h"

#include <algorithm>

namespace detent {
namespace {

template <class To>
Tensor narrowed(const Tensor& codes) {
  Tensor result(DTypeOf<To>::value, codes.shape());
  std::ranges::transform(codes.values<int32_t>(), result.values<To>().begin(),
                         [](int32_t code) { return static_cast<To>(code); });
  return result;
}

}  // namespace

DType code_dtype(const CodeType& type) {
  const auto fits = [&](int32_t low, int32_t high) { return type.low >= low && type.high <= high; };
  if (fits(0, 255)) return DType::kUInt8;
  if (fits(-128, 127)) return DType::kInt8;
  return fits(-32768, 32767) ? DType::kInt16 : DType::kInt32;
}

Tensor as_dtype(const Tensor& codes, DType dtype) {
  switch (dtype) {
    case DType::kUInt8:
      return narrowed<uint8_t>(codes);
    case DType::kInt8:
      return narrowed<int8_t>(codes);
    case DType::kInt16:
      return narrowed<int16_t>(codes);
    default:
      return codes;
  }
}

Tensor codes_of(const Tensor& values, const CodeType& type) {
  Tensor codes(DType::kInt32, values.shape());
  std::ranges::transform(values.values<float>(), codes.values<int32_t>().begin(),
                         [&](float value) { return type.code(value); });
  return codes;
}

}  // namespace detent

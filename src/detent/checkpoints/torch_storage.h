#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "detent/core/tensor.h"

namespace detent {

/// One of PyTorch's classes of typed storage.
struct TorchStorageClass {
  std::string_view name;   // in module torch
  std::string_view dtype;  // torch.<dtype>
  size_t element_size;
  std::optional<DType> supported = std::nullopt;  // as what it is read; nullopt: not at all
};

inline constexpr std::array<TorchStorageClass, 19> kTorchStorages = {{
    {"BoolStorage", "bool", 1, DType::kBool},
    {"ByteStorage", "uint8", 1, DType::kUInt8},
    {"CharStorage", "int8", 1, DType::kInt8},
    {"ShortStorage", "int16", 2, DType::kInt16},
    {"IntStorage", "int32", 4, DType::kInt32},
    {"LongStorage", "int64", 8, DType::kInt64},
    {"HalfStorage", "float16", 2, DType::kFloat16},
    {"BFloat16Storage", "bfloat16", 2, DType::kBFloat16},
    {"FloatStorage", "float32", 4, DType::kFloat32},
    {"DoubleStorage", "float64", 8, DType::kFloat64},
    {"ComplexFloatStorage", "complex64", 8},
    {"ComplexDoubleStorage", "complex128", 16},
    {"QInt8Storage", "qint8", 1},
    {"QUInt8Storage", "quint8", 1},
    {"QInt32Storage", "qint32", 4},
    {"QUInt4x2Storage", "quint4x2", 1},
    {"QUInt2x4Storage", "quint2x4", 1},
    // Bytes whose dtype stands beside the storage (PyTorch 2.1 and later, for dtypes without a class).
    {"UntypedStorage", "uint8", 1, DType::kUInt8},
    {"_UntypedStorage", "uint8", 1, DType::kUInt8},
}};

/// nullptr when there is no such class.
inline const TorchStorageClass* find_torch_storage(std::string_view name) {
  const auto* found = std::ranges::find(kTorchStorages, name, &TorchStorageClass::name);
  return found == kTorchStorages.end() ? nullptr : found;
}

}  // namespace detent

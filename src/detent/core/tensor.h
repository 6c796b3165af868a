#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "detent/core/error.h"

namespace detent {

enum class DType : uint8_t {
  kBool,
  kUInt8,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kFloat16,
  kBFloat16,
  kFloat32,
  kFloat64,
  kFloat8E4M3,  // OCP 8-bit floats: E4M3 without infinities, E5M2 with
  kFloat8E5M2,
};

/// Bytes of one element.
size_t dtype_size(DType dtype);
/// "float32", "int8", ...: numpy's names, and PyTorch's "bfloat16", "float8_e4m3fn" and "float8_e5m2".
std::string_view dtype_name(DType dtype);
bool is_floating_point(DType dtype);

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::kBool;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::kUInt8;
};
template <>
struct DTypeOf<int8_t> {
  static constexpr DType value = DType::kInt8;
};
template <>
struct DTypeOf<int16_t> {
  static constexpr DType value = DType::kInt16;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::kInt32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::kInt64;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kFloat32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kFloat64;
};

using Shape = std::vector<int64_t>;

/// "[1, 4]"
std::string shape_text(const Shape& shape);
/// The product of the dimensions (1 for rank 0). Throws Error on a negative dimension or on int64 overflow.
int64_t element_count(const Shape& shape);

/// A dense row-major tensor. Copies share the storage; `clone` does not. A moved-from tensor may only be
/// assigned to. Storage is owned (64-byte aligned) or borrowed and kept alive by `owner`.
class Tensor {
 public:
  /// float32, shape [0].
  Tensor();
  /// Zero-filled.
  Tensor(DType dtype, Shape shape);
  /// Views memory that `owner` keeps alive; `data` holds at least the bytes of `shape`.
  static Tensor borrow(DType dtype, Shape shape, std::byte* data, std::shared_ptr<const void> owner);
  /// Copies `values`, as many as `shape` has.
  template <class T>
  static Tensor from(Shape shape, std::span<const T> values);
  template <class T>
  static Tensor from(Shape shape, const std::vector<T>& values) {
    return from(std::move(shape), std::span<const T>(values));
  }

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return *shape_; }
  int64_t rank() const { return static_cast<int64_t>(shape_->size()); }
  /// Size of one dimension; -1 is the last.
  int64_t dim(int64_t axis) const;
  int64_t numel() const { return numel_; }
  size_t byte_size() const { return static_cast<size_t>(numel_) * dtype_size(dtype_); }

  /// All elements in row-major order; T must be the element type.
  template <class T>
  std::span<T> values() {
    return {reinterpret_cast<T*>(typed(DTypeOf<T>::value)), static_cast<size_t>(numel_)};
  }
  template <class T>
  std::span<const T> values() const {
    return {reinterpret_cast<const T*>(typed(DTypeOf<T>::value)), static_cast<size_t>(numel_)};
  }
  std::span<std::byte> bytes() { return {data_, byte_size()}; }
  std::span<const std::byte> bytes() const { return {data_, byte_size()}; }
  /// Keeps the storage alive.
  const std::shared_ptr<const void>& owner() const { return owner_; }

  Tensor clone() const;
  /// Same storage with another shape of equal size.
  Tensor reshaped(Shape shape) const;
  /// Rows [begin, end) of dimension 0, sharing the storage.
  Tensor rows(int64_t begin, int64_t end) const;
  /// Same dtype, shape and bytes.
  bool equals(const Tensor& other) const;
  /// Whether no element is NaN or infinite. Integers never are.
  bool is_finite() const;

 private:
  std::byte* typed(DType expected) const;

  DType dtype_ = DType::kFloat32;
  std::shared_ptr<const Shape> shape_;  // copies of tensors allocate nothing
  int64_t numel_ = 0;
  std::byte* data_ = nullptr;
  std::shared_ptr<const void> owner_;
};

/// Uninitialized, for code that writes every element: clearing costs as much as filling.
Tensor unfilled_tensor(DType dtype, Shape shape);

template <class T>
Tensor Tensor::from(Shape shape, std::span<const T> values) {
  Tensor tensor(DTypeOf<T>::value, std::move(shape));
  const std::span<T> target = tensor.values<T>();
  DETENT_CHECK(values.size() == target.size(), "{} values for shape {}", values.size(),
               shape_text(tensor.shape()));
  std::copy(values.begin(), values.end(), target.begin());
  return tensor;
}

}  // namespace detent

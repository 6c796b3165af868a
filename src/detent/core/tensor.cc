#include "detent/core/tensor.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <span>

#include <fmt/ranges.h>

#include "detent/core/block_cache.h"
#include "detent/core/parallel.h"

namespace detent {
namespace {

constexpr size_t kAlignment = BlockCache::kAlignment;

/// The place of tensors without elements, of which programs make many.
alignas(kAlignment) std::byte kNoBytes[kAlignment] = {};

/// aligned_alloc takes ten times as long as malloc, of which threads keep small blocks.
std::shared_ptr<std::byte> allocate_small(size_t bytes, size_t rounded) {
  auto storage = std::make_shared_for_overwrite<std::byte[]>(rounded + kAlignment - 1);
  const size_t past = reinterpret_cast<uintptr_t>(storage.get()) % kAlignment;
  std::byte* const data = storage.get() + (past == 0 ? 0 : kAlignment - past);
  std::memset(data + bytes, 0, rounded - bytes);
  return {std::move(storage), data};
}

/// The bits of floats but for their signs are ordered as their magnitudes; those of `infinity` and NaN come
/// last. A maximum of integers takes vectors, which a test of each float that may end early does not.
template <class Bits>
bool magnitudes_below(Bits infinity, std::span<const Bits> elements) {
  constexpr int64_t kGrain = 1 << 16;
  constexpr Bits kMagnitude = std::numeric_limits<Bits>::max() / 2;
  std::atomic<bool> below = true;
  parallel_for(std::ssize(elements), kGrain, [&](int64_t begin, int64_t end) {
    Bits largest = 0;
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
      largest = std::max(largest, static_cast<Bits>(elements[i] & kMagnitude));
    if (largest >= infinity) below = false;
  });
  return below;
}

std::shared_ptr<std::byte> block_or_null(size_t bytes) {
  try {
    return tensor_block(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

std::shared_ptr<std::byte> allocate(size_t bytes) {
  constexpr size_t kSmall = 4096;
  constexpr size_t kLarge = size_t{1} << 20;  // in pages of its own: in malloc's heap, small blocks that stay
                                              // kept twice as much resident as was in use
  const size_t rounded = aligned_size(bytes);
  if (rounded <= kSmall) return allocate_small(bytes, rounded);
  std::shared_ptr<std::byte> storage;
  if (rounded >= kLarge)
    storage = block_or_null(rounded);
  else
    storage = {static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded)), std::free};
  if (storage == nullptr) fail("out of memory: a tensor of {} bytes", bytes);
  if (rounded > bytes) std::memset(storage.get() + bytes, 0, rounded - bytes);
  return storage;
}

std::shared_ptr<const Shape> shared_shape(Shape shape) {
  return std::make_shared<const Shape>(std::move(shape));
}

/// Owned by nobody, so that tensors without elements count no references.
std::shared_ptr<const Shape> shape_of_none() {
  static const Shape kShape = {0};
  return {std::shared_ptr<const void>(), &kShape};
}
const std::shared_ptr<const Shape> kMadeAtOnce = shape_of_none();  // memory that a test would miss later

/// Bytes of the shape's elements.
size_t checked_bytes(DType dtype, const Shape& shape, int64_t elements) {
  const auto count = static_cast<uint64_t>(elements);
  if (count > std::numeric_limits<size_t>::max() / 2 / dtype_size(dtype))
    fail("shape {} has too many elements", shape_text(shape));
  return count * dtype_size(dtype);
}

}  // namespace

size_t dtype_size(DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kUInt8:
    case DType::kInt8:
    case DType::kFloat8E4M3:
    case DType::kFloat8E5M2:
      return 1;
    case DType::kInt16:
    case DType::kFloat16:
    case DType::kBFloat16:
      return 2;
    case DType::kInt32:
    case DType::kFloat32:
      return 4;
    case DType::kInt64:
    case DType::kFloat64:
      return 8;
  }
  DETENT_CHECK(false, "dtype {}", static_cast<int>(dtype));
  return 0;
}

std::string_view dtype_name(DType dtype) {
  constexpr std::string_view kNames[] = {"bool",    "uint8",   "int8",          "int16",
                                         "int32",   "int64",   "float16",       "bfloat16",
                                         "float32", "float64", "float8_e4m3fn", "float8_e5m2"};
  return kNames[static_cast<size_t>(dtype)];
}

bool is_floating_point(DType dtype) {
  return dtype == DType::kFloat8E4M3 || dtype == DType::kFloat8E5M2 || dtype == DType::kFloat16 ||
         dtype == DType::kBFloat16 || dtype == DType::kFloat32 || dtype == DType::kFloat64;
}

std::string shape_text(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

int64_t element_count(const Shape& shape) {
  bool empty = false;
  for (const int64_t size : shape) {
    if (size < 0) fail("shape {} has a negative dimension", shape_text(shape));
    empty = empty || size == 0;
  }
  if (empty) return 0;
  int64_t count = 1;
  for (const int64_t size : shape) {
    if (__builtin_mul_overflow(count, size, &count))
      fail("shape {} has too many elements", shape_text(shape));
  }
  return count;
}

Tensor::Tensor() : shape_(shape_of_none()), data_(kNoBytes) {}

Tensor::Tensor(DType dtype, Shape shape)
    : dtype_(dtype), shape_(shared_shape(std::move(shape))), numel_(element_count(*shape_)) {
  auto storage = allocate(checked_bytes(dtype_, *shape_, numel_));
  data_ = storage.get();
  std::memset(data_, 0, byte_size());
  owner_ = std::move(storage);
}

Tensor unfilled_tensor(DType dtype, Shape shape) {
  auto storage = allocate(checked_bytes(dtype, shape, element_count(shape)));
  std::byte* const data = storage.get();
  return Tensor::borrow(dtype, std::move(shape), data, std::move(storage));
}

Tensor Tensor::borrow(DType dtype, Shape shape, std::byte* data, std::shared_ptr<const void> owner) {
  Tensor tensor;
  tensor.dtype_ = dtype;
  tensor.numel_ = element_count(shape);
  tensor.shape_ = shared_shape(std::move(shape));
  tensor.data_ = data;
  tensor.owner_ = std::move(owner);
  return tensor;
}

int64_t Tensor::dim(int64_t axis) const {
  const int64_t index = axis < 0 ? axis + rank() : axis;
  DETENT_CHECK(index >= 0 && index < rank(), "axis {} of shape {}", axis, shape_text(*shape_));
  return (*shape_)[static_cast<size_t>(index)];
}

std::byte* Tensor::typed(DType expected) const {
  DETENT_CHECK(dtype_ == expected, "{} tensor read as {}", dtype_name(dtype_), dtype_name(expected));
  return data_;
}

Tensor Tensor::clone() const {
  auto storage = allocate(byte_size());
  if (byte_size() > 0) std::memcpy(storage.get(), data_, byte_size());
  Tensor copy = *this;
  copy.data_ = storage.get();
  copy.owner_ = std::move(storage);
  return copy;
}

Tensor Tensor::reshaped(Shape shape) const {
  const int64_t count = element_count(shape);
  DETENT_CHECK(count == numel_, "{} reshaped to {}", shape_text(*shape_), shape_text(shape));
  return borrow(dtype_, std::move(shape), data_, owner_);
}

Tensor Tensor::rows(int64_t begin, int64_t end) const {
  DETENT_CHECK(rank() > 0 && 0 <= begin && begin <= end && end <= dim(0), "rows {}..{} of {}", begin, end,
               shape_text(*shape_));
  Shape shape = *shape_;
  shape[0] = end - begin;
  const size_t row_bytes = dim(0) == 0 ? 0 : byte_size() / static_cast<size_t>(dim(0));
  return borrow(dtype_, std::move(shape), data_ + static_cast<size_t>(begin) * row_bytes, owner_);
}

bool Tensor::is_finite() const {
  const auto all = [&]<class Bits>(Bits infinity) {
    return magnitudes_below(infinity, {reinterpret_cast<const Bits*>(data_), static_cast<size_t>(numel_)});
  };
  switch (dtype_) {
    case DType::kFloat64:
      return all(uint64_t{0x7ff0} << 48);
    case DType::kFloat32:
      return all(uint32_t{0x7f800000});
    case DType::kBFloat16:
      return all(uint16_t{0x7f80});
    case DType::kFloat16:
      return all(uint16_t{0x7c00});
    case DType::kFloat8E5M2:
      return all(uint8_t{0x7c});
    case DType::kFloat8E4M3:
      return all(uint8_t{0x7f});
    default:
      return true;
  }
}

bool Tensor::equals(const Tensor& other) const {
  return dtype_ == other.dtype_ && *shape_ == *other.shape_ &&
         (byte_size() == 0 || std::memcmp(data_, other.data_, byte_size()) == 0);
}

}  // namespace detent

#include "detent/python/arrays.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include "detent/core/convert.h"
#include "detent/core/error.h"
#include "detent/files/array_files.h"
#include "detent/workflows/network_values.h"

namespace nb = nanobind;

namespace detent::python {
namespace {

using AnyArray = nb::ndarray<nb::ro, nb::device::cpu>;

struct ElementType {
  DType dtype;
  nb::dlpack::dtype_code code;
  uint8_t bits;
};

constexpr ElementType kElementTypes[] = {
    {DType::kFloat32, nb::dlpack::dtype_code::Float, 32},
    {DType::kInt64, nb::dlpack::dtype_code::Int, 64},
    {DType::kFloat64, nb::dlpack::dtype_code::Float, 64},
    {DType::kFloat16, nb::dlpack::dtype_code::Float, 16},
    {DType::kBFloat16, nb::dlpack::dtype_code::Bfloat, 16},
    {DType::kInt32, nb::dlpack::dtype_code::Int, 32},
    {DType::kInt16, nb::dlpack::dtype_code::Int, 16},
    {DType::kInt8, nb::dlpack::dtype_code::Int, 8},
    {DType::kUInt8, nb::dlpack::dtype_code::UInt, 8},
    {DType::kBool, nb::dlpack::dtype_code::Bool, 8},
};

/// Unsigned ones as the signed ones with the same bits.
constexpr ElementType kUnsignedTypes[] = {
    {DType::kInt16, nb::dlpack::dtype_code::UInt, 16},
    {DType::kInt32, nb::dlpack::dtype_code::UInt, 32},
    {DType::kInt64, nb::dlpack::dtype_code::UInt, 64},
};

[[noreturn]] void type_error(const std::string& text) { throw nb::type_error(text.c_str()); }

std::optional<DType> dtype_of(std::span<const ElementType> types, const nb::dlpack::dtype& type) {
  for (const ElementType& known : types) {
    if (static_cast<uint8_t>(known.code) == type.code && known.bits == type.bits && type.lanes == 1)
      return known.dtype;
  }
  return std::nullopt;
}

template <class Array>
bool is_contiguous(const Array& array) {
  if (array.size() == 0 || array.stride_ptr() == nullptr) return true;
  int64_t step = 1;
  for (size_t d = array.ndim(); d-- > 0;) {
    if (array.shape(d) != 1 && array.stride(d) != step) return false;
    step *= static_cast<int64_t>(array.shape(d));
  }
  return true;
}

/// The elements of `array` from `source` on, of the dimensions from `d`, in row-major order.
void copy_elements(const AnyArray& array, size_t d, const std::byte* source, size_t size,
                   std::byte*& target) {
  if (d == array.ndim()) {
    std::memcpy(target, source, size);
    target += size;
    return;
  }
  const auto step = static_cast<ptrdiff_t>(array.stride(d)) * static_cast<ptrdiff_t>(size);
  for (size_t i = 0; i < array.shape(d); ++i)
    copy_elements(array, d + 1, source + static_cast<ptrdiff_t>(i) * step, size, target);
}

Shape shape_of(const auto& array) {
  Shape shape;
  for (size_t d = 0; d < array.ndim(); ++d) shape.push_back(static_cast<int64_t>(array.shape(d)));
  return shape;
}

/// As messages call what was given: "list", "ndarray of complex128", "Tensor of torch.float32 on meta".
std::string array_text(nb::handle object) {
  const auto said = [&](const char* name) -> std::string {
    try {
      const nb::object value = nb::getattr(object, name, nb::none());
      return value.is_none() ? "" : nb::cast<std::string>(nb::str(value));
    } catch (const nb::python_error&) {
      return "";
    }
  };
  std::string text = type_text(object);
  if (const std::string dtype = said("dtype"); !dtype.empty()) text += " of " + dtype;
  if (const std::string device = said("device"); !device.empty() && device != "cpu") text += " on " + device;
  return text;
}

}  // namespace

std::string type_text(nb::handle object) {
  return nb::cast<std::string>(nb::object(object.type().attr("__name__")));
}

namespace {

/// The array itself where it is contiguous, else a copy.
Tensor elements_of(AnyArray array, DType dtype) {
  Shape shape = shape_of(array);
  const auto* data = static_cast<const std::byte*>(array.data());
  if (is_contiguous(array)) {
    auto owner = std::make_shared<const AnyArray>(std::move(array));
    // Tensors have one kind of pointer; nothing writes to what is borrowed.
    return Tensor::borrow(dtype, std::move(shape), const_cast<std::byte*>(data), std::move(owner));
  }
  Tensor copy(dtype, std::move(shape));
  std::byte* target = copy.bytes().data();
  copy_elements(array, 0, data, dtype_size(dtype), target);
  return copy;
}

}  // namespace

Tensor tensor_of(nb::handle array, const std::string& what) {
  AnyArray found;
  if (!nb::ndarray_check(array) && nb::hasattr(array, "to_numpy"))  // of pandas or polars
    return tensor_of(array.attr("to_numpy")(), what);
  if (!nb::ndarray_check(array) || !nb::try_cast(array, found, false))
    type_error(fmt::format("{}: got {}, expected an array in memory of the processor (numpy, DLPack, buffer)",
                           what, array_text(array)));
  const nb::dlpack::dtype type = found.dtype();
  if (const auto dtype = dtype_of(kElementTypes, type)) return elements_of(std::move(found), *dtype);
  if (const auto bits = dtype_of(kUnsignedTypes, type))
    return unsigned_elements(elements_of(std::move(found), *bits), what);
  type_error(
      fmt::format("{}: got {}, expected an array of floats, integers or bool", what, array_text(array)));
}

Tensor tensor_of(nb::handle array, DType dtype, const std::string& what) {
  const Tensor tensor = tensor_of(array, what);
  if (auto converted = as_input_dtype(tensor, dtype)) return *converted;
  type_error(fmt::format("{}: got an array of {}, expected {}: convert it where that is meant", what,
                         dtype_name(tensor.dtype()), dtype_name(dtype)));
}

nb::object array_of(const Tensor& given) {
  if (given.dtype() == DType::kBFloat16) return array_of(to_float32(given));  // numpy has no such type
  // Two references: the argument's, and the caller's own where it still has one.
  const Tensor tensor = given.owner().use_count() > 1 ? given.clone() : given;
  const auto known = std::ranges::find(kElementTypes, tensor.dtype(), &ElementType::dtype);
  DETENT_CHECK(known != std::end(kElementTypes), "dtype {}", dtype_name(tensor.dtype()));
  std::vector<size_t> shape(tensor.shape().begin(), tensor.shape().end());
  auto owner = std::make_unique<Tensor>(tensor);
  std::byte* data = owner->bytes().data();
  const nb::capsule capsule(owner.get(), [](void* held) noexcept { delete static_cast<Tensor*>(held); });
  owner.release();
  nb::dlpack::dtype type{};
  type.code = static_cast<uint8_t>(known->code);
  type.bits = known->bits;
  type.lanes = 1;
  const nb::ndarray<nb::numpy> array(data, shape.size(), shape.data(), capsule, nullptr, type);
  return nb::cast(array, nb::rv_policy::reference);
}

Tensor writable_tensor_of(nb::handle array, const std::string& what) {
  nb::ndarray<nb::device::cpu> target;
  if (!nb::ndarray_check(array) || !nb::try_cast(array, target, false))
    type_error(fmt::format("{}: got {}, expected a writable array in memory of the processor", what,
                           array_text(array)));
  const std::optional<DType> dtype = dtype_of(kElementTypes, target.dtype());
  if (!dtype || !is_contiguous(target))
    type_error(fmt::format("{}: got an array of {}, expected a contiguous one", what,
                           dtype ? dtype_name(*dtype) : "another dtype"));
  auto* data = static_cast<std::byte*>(target.data());
  Shape shape = shape_of(target);
  auto owner = std::make_shared<const nb::ndarray<nb::device::cpu>>(std::move(target));
  return Tensor::borrow(*dtype, std::move(shape), data, std::move(owner));
}

void copy_into(nb::handle array, const Tensor& tensor, const std::string& what) {
  Tensor target = writable_tensor_of(array, what);
  if (target.dtype() != tensor.dtype() || target.shape() != tensor.shape()) {
    type_error(fmt::format("{}: got {} {}, expected {} {}", what, dtype_name(target.dtype()),
                           shape_text(target.shape()), dtype_name(tensor.dtype()),
                           shape_text(tensor.shape())));
  }
  std::ranges::copy(tensor.bytes(), target.bytes().begin());
}

}  // namespace detent::python

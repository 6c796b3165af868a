#include "detent/onnx/tensor_data.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "detent/core/convert.h"
#include "detent/core/error.h"
#include "detent/graph/operators.h"

namespace detent {
namespace {

struct ElementType {
  int64_t onnx;
  std::string_view name;
  std::optional<DType> dtype;
};

constexpr ElementType kElementTypes[] = {
    {1, "FLOAT", DType::kFloat32},   {2, "UINT8", DType::kUInt8},      {3, "INT8", DType::kInt8},
    {5, "INT16", DType::kInt16},     {6, "INT32", DType::kInt32},      {7, "INT64", DType::kInt64},
    {9, "BOOL", DType::kBool},       {10, "FLOAT16", DType::kFloat16}, {11, "DOUBLE", DType::kFloat64},
    {14, "COMPLEX64", std::nullopt}, {15, "COMPLEX128", std::nullopt}, {16, "BFLOAT16", DType::kBFloat16}};

const ElementType* known_type(int64_t element_type) {
  const auto* found = std::ranges::find(kElementTypes, element_type, &ElementType::onnx);
  return found == std::end(kElementTypes) ? nullptr : found;
}

/// The values that a message holds one by one, as its element type's field has them.
template <class Target, class Values>
void copy_values(const Values& values, Tensor& tensor, const std::string& name) {
  if (values.size() != tensor.numel())
    fail("tensor \"{}\": {} values for shape {}", name, values.size(), shape_text(tensor.shape()));
  const std::span<Target> target = tensor.values<Target>();
  for (int i = 0; i < values.size(); ++i) target[static_cast<size_t>(i)] = static_cast<Target>(values.Get(i));
}

/// 16-bit floats, whose bits int32_data has.
void copy_bits(const onnx::TensorProto& proto, Tensor& tensor) {
  if (proto.int32_data_size() != tensor.numel())
    fail("tensor \"{}\": {} values for shape {}", proto.name(), proto.int32_data_size(),
         shape_text(tensor.shape()));
  for (int i = 0; i < proto.int32_data_size(); ++i) {
    const auto bits = static_cast<uint16_t>(proto.int32_data(i));
    std::memcpy(tensor.bytes().data() + sizeof(bits) * static_cast<size_t>(i), &bits, sizeof(bits));
  }
}

void copy_typed(const onnx::TensorProto& proto, Tensor& tensor) {
  const std::string& name = proto.name();
  switch (tensor.dtype()) {
    case DType::kFloat32:
      return copy_values<float>(proto.float_data(), tensor, name);
    case DType::kFloat64:
      return copy_values<double>(proto.double_data(), tensor, name);
    case DType::kInt64:
      return copy_values<int64_t>(proto.int64_data(), tensor, name);
    case DType::kInt32:
      return copy_values<int32_t>(proto.int32_data(), tensor, name);
    case DType::kInt16:
      return copy_values<int16_t>(proto.int32_data(), tensor, name);
    case DType::kInt8:
      return copy_values<int8_t>(proto.int32_data(), tensor, name);
    case DType::kUInt8:
      return copy_values<uint8_t>(proto.int32_data(), tensor, name);
    case DType::kBool:
      return copy_values<bool>(proto.int32_data(), tensor, name);
    case DType::kFloat16:
    case DType::kBFloat16:
      return copy_bits(proto, tensor);
    default:
      fail("tensor \"{}\": {} values without raw_data", name, dtype_name(tensor.dtype()));
  }
}

}  // namespace

std::string onnx_element_type_name(int64_t element_type) {
  if (const NarrowType* narrow = find_narrow_type(element_type)) return std::string(narrow->name);
  const ElementType* type = known_type(element_type);
  return type == nullptr ? fmt::format("element type {}", element_type) : std::string(type->name);
}

DType dtype_of_onnx(int64_t element_type) {
  if (const NarrowType* narrow = find_narrow_type(element_type)) return narrow->held;
  const ElementType* type = known_type(element_type);
  if (type == nullptr || !type->dtype) {
    fail("tensors of {} are not supported", onnx_element_type_name(element_type));
  }
  return *type->dtype;
}

int64_t onnx_element_type(DType dtype) {
  for (const ElementType& type : kElementTypes) {
    if (type.dtype == dtype) return type.onnx;
  }
  DETENT_CHECK(false, "dtype {}", dtype_name(dtype));
  return 0;
}

int64_t onnx_element_type(std::string_view name) {
  if (const NarrowType* narrow = find_narrow_type(name)) return narrow->onnx;
  const auto* found = std::ranges::find(kElementTypes, name, &ElementType::name);
  if (found == std::end(kElementTypes)) fail("there is no element type \"{}\"", name);
  return found->onnx;
}

Shape shape_of(const onnx::TensorProto& proto) {
  const Shape shape(proto.dims().begin(), proto.dims().end());
  if (shape.size() > kMostDims)
    fail("tensor \"{}\": {} dimensions, expected at most {}", proto.name(), shape.size(), kMostDims);
  try {
    const int64_t count = element_count(shape);
    constexpr int64_t kMost = int64_t{1} << 40;
    if (count > kMost) fail("{} elements", count);
  } catch (const Error& error) {
    fail("tensor \"{}\": shape {}: {}", proto.name(), shape_text(shape), error.what());
  }
  return shape;
}

namespace {

Tensor narrow_tensor(const onnx::TensorProto& proto, const NarrowType& type, const Shape& shape) {
  const std::vector<std::byte> packed = packed_elements(proto, type);
  const uint64_t expected = packed_size(type, element_count(shape));
  if (packed.size() != expected) {
    fail("tensor \"{}\": {} bytes of data for {} of shape {}, expected {}", proto.name(), packed.size(),
         type.name, shape_text(shape), expected);
  }
  return unpacked(type, shape, packed);
}

}  // namespace

Tensor tensor_of(const onnx::TensorProto& proto) {
  const Shape shape = shape_of(proto);
  if (proto.has_segment())
    fail("tensor \"{}\" is a segment of another, which is not supported", proto.name());
  if (const NarrowType* narrow = find_narrow_type(proto.data_type())) {
    if (narrow->is_text()) fail("tensor \"{}\": tensors of {} are not supported", proto.name(), narrow->name);
    return narrow_tensor(proto, *narrow, shape);
  }
  DType dtype = DType::kFloat32;
  try {
    dtype = dtype_of_onnx(proto.data_type());
  } catch (const Error& error) {
    fail("tensor \"{}\": {}", proto.name(), error.what());
  }
  const auto bytes = static_cast<uint64_t>(element_count(shape)) * dtype_size(dtype);
  // A shape that is larger than the message must not have its memory allocated first.
  if (bytes > 16 * proto.ByteSizeLong() + 64)
    fail("tensor \"{}\": {} bytes of data for shape {}", proto.name(), proto.ByteSizeLong(),
         shape_text(shape));
  Tensor tensor(dtype, shape);
  if (!proto.has_raw_data()) {
    copy_typed(proto, tensor);
    return tensor;
  }
  if (proto.raw_data().size() != tensor.byte_size()) {
    fail("tensor \"{}\": {} bytes of data for {} of shape {}, expected {}", proto.name(),
         proto.raw_data().size(), dtype_name(dtype), shape_text(shape), tensor.byte_size());
  }
  std::memcpy(tensor.bytes().data(), proto.raw_data().data(), tensor.byte_size());
  set_truth(tensor);
  return tensor;
}

void set_truth(Tensor& tensor) {
  if (tensor.dtype() != DType::kBool) return;
  for (std::byte& byte : tensor.bytes()) byte = byte == std::byte{0} ? std::byte{0} : std::byte{1};
}

bool exceeds_float32(const Tensor& tensor) {
  return tensor.dtype() == DType::kFloat64 && std::ranges::any_of(tensor.values<double>(), [](double x) {
           return std::isfinite(x) && std::isinf(static_cast<float>(x));
         });
}

bool vanishes_in_float32(const Tensor& tensor) {
  if (tensor.dtype() != DType::kFloat64) return false;
  const auto values = tensor.values<double>();
  return std::ranges::any_of(values, [](double x) { return x != 0; }) &&
         std::ranges::all_of(values, [](double x) { return static_cast<float>(x) == 0; });
}

Tensor as_float32(const Tensor& tensor) {
  if (!is_floating_point(tensor.dtype())) return tensor;
  if (!exceeds_float32(tensor)) return to_float32(tensor);
  Tensor result(DType::kFloat32, tensor.shape());
  std::ranges::transform(tensor.values<double>(), result.values<float>().begin(), [](double x) {
    constexpr double kMost = std::numeric_limits<float>::max();
    return static_cast<float>(std::isfinite(x) ? std::clamp(x, -kMost, kMost) : x);
  });
  return result;
}

}  // namespace detent

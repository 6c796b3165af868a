#include "detent/onnx/tensor_data.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <limits>

#include "detent/core/element_types.h"
#include "detent/core/error.h"

namespace detent {
namespace {

using Nan = NarrowType::Nan;

constexpr NarrowType kNarrowTypes[] = {
    {.onnx = kOnnxText, .name = "STRING", .held = DType::kInt64, .bits = 64, .is_signed = true},
    {.onnx = 4, .name = "UINT16", .held = DType::kInt32, .bits = 16},
    {.onnx = 12, .name = "UINT32", .held = DType::kInt64, .bits = 32},
    {.onnx = 13, .name = "UINT64", .held = DType::kInt64, .bits = 64},
    {17, "FLOAT8E4M3FN", DType::kFloat32, 8, true, 3, 7, Nan::kLast, "fp8_e4m3fn"},
    {18, "FLOAT8E4M3FNUZ", DType::kFloat32, 8, true, 3, 8, Nan::kMinusZero, "fp8_e4m3fnuz"},
    {19, "FLOAT8E5M2", DType::kFloat32, 8, true, 2, 15, Nan::kFamily, "fp8_e5m2"},
    {20, "FLOAT8E5M2FNUZ", DType::kFloat32, 8, true, 2, 16, Nan::kMinusZero, "fp8_e5m2fnuz"},
    {.onnx = 21, .name = "UINT4", .held = DType::kUInt8, .bits = 4},
    {.onnx = 22, .name = "INT4", .held = DType::kInt8, .bits = 4, .is_signed = true},
    {23, "FLOAT4E2M1", DType::kFloat32, 4, true, 1, 1, Nan::kNone, "fp4_e2m1"},
    {24, "FLOAT8E8M0", DType::kFloat32, 8, false, 0, 127, Nan::kLast},
    {.onnx = 25, .name = "UINT2", .held = DType::kUInt8, .bits = 2},
    {.onnx = 26, .name = "INT2", .held = DType::kInt8, .bits = 2, .is_signed = true}};

int64_t integer_of_code(const NarrowType& type, uint64_t code) {
  if (code > uint64_t{INT64_MAX}) fail("{} of {}, expected at most {}", code, type.name, INT64_MAX);
  const bool is_negative = type.is_signed && (code >> (type.bits - 1) & 1U) != 0;
  return static_cast<int64_t>(code) - (is_negative ? int64_t{1} << type.bits : 0);
}

double float_of_code(const NarrowType& type, uint32_t code) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const int magnitude_bits = type.bits - (type.is_signed ? 1 : 0);
  const uint32_t magnitude = code & ((1U << magnitude_bits) - 1);
  const bool is_negative = magnitude != code;
  const uint32_t exponent = magnitude >> type.fraction;
  const uint32_t fraction = magnitude & ((1U << type.fraction) - 1);
  const uint32_t last_exponent = (1U << (magnitude_bits - type.fraction)) - 1;
  if (type.nan == Nan::kMinusZero && is_negative && magnitude == 0) return kNan;
  if (type.nan == Nan::kLast && magnitude == (1U << magnitude_bits) - 1) return kNan;
  if (type.nan == Nan::kFamily && exponent == last_exponent) {
    if (fraction != 0) return kNan;
    return is_negative ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  }
  const bool has_subnormals = type.fraction > 0;
  const bool is_subnormal = has_subnormals && exponent == 0;
  const uint32_t steps = fraction + (is_subnormal ? 0 : 1U << type.fraction);
  const int scale = static_cast<int>(is_subnormal ? 1 : exponent) - type.bias - type.fraction;
  const double size = std::ldexp(static_cast<double>(steps), scale);
  return is_negative ? -size : size;
}

uint64_t code_at(const NarrowType& type, std::span<const std::byte> packed, size_t index) {
  const auto bits = static_cast<size_t>(type.bits);
  if (bits < CHAR_BIT) {
    const auto byte = std::to_integer<uint64_t>(packed[index * bits / CHAR_BIT]);
    return byte >> (index * bits % CHAR_BIT) & ((1U << bits) - 1);
  }
  uint64_t code = 0;
  for (size_t i = bits / CHAR_BIT; i-- > 0;)
    code = code << CHAR_BIT | std::to_integer<uint64_t>(packed[index * (bits / CHAR_BIT) + i]);
  return code;
}

}  // namespace

double NarrowType::low() const { return is_signed ? -std::ldexp(1, bits - 1) : 0; }

double NarrowType::high() const { return std::ldexp(1, is_signed ? bits - 1 : bits) - 1; }

const NarrowType* find_narrow_type(int64_t element_type) {
  const auto* found = std::ranges::find(kNarrowTypes, element_type, &NarrowType::onnx);
  return found == std::end(kNarrowTypes) ? nullptr : found;
}

const NarrowType* find_narrow_type(std::string_view name) {
  const auto* found = std::ranges::find(kNarrowTypes, name, &NarrowType::name);
  return found == std::end(kNarrowTypes) ? nullptr : found;
}

const NarrowType* narrow_type_of_format(std::string_view format) {
  const auto has_format = [&](const NarrowType& type) {
    return type.format != nullptr && type.format == format;
  };
  const auto* found = std::ranges::find_if(kNarrowTypes, has_format);
  return found == std::end(kNarrowTypes) ? nullptr : found;
}

uint64_t packed_size(const NarrowType& type, int64_t count) {
  return (static_cast<uint64_t>(count) * static_cast<uint64_t>(type.bits) + CHAR_BIT - 1) / CHAR_BIT;
}

Tensor unpacked(const NarrowType& type, const Shape& shape, std::span<const std::byte> packed) {
  Tensor tensor(type.held, shape);
  DETENT_CHECK(packed.size() == packed_size(type, tensor.numel()), "{} bytes", packed.size());
  visit_numbers(type.held, [&]<class T>(T) {
    for (size_t i = 0; T & value : tensor.values<T>()) {
      const uint64_t code = code_at(type, packed, i++);
      value = type.is_float() ? static_cast<T>(float_of_code(type, static_cast<uint32_t>(code)))
                              : static_cast<T>(integer_of_code(type, code));
    }
  });
  return tensor;
}

std::vector<std::byte> packed_elements(const onnx::TensorProto& proto, const NarrowType& type) {
  std::vector<std::byte> packed;
  if (proto.has_raw_data()) {
    const auto bytes = std::as_bytes(std::span(proto.raw_data()));
    packed.assign(bytes.begin(), bytes.end());
    return packed;
  }
  const auto append = [&](uint64_t word) {
    for (int bit = 0; bit < std::max(type.bits, CHAR_BIT); bit += CHAR_BIT)
      packed.push_back(static_cast<std::byte>(word >> static_cast<unsigned>(bit) & 0xFFU));
  };
  constexpr int kMostInInt32 = 16;
  if (type.bits <= kMostInInt32) {
    for (const int32_t word : proto.int32_data()) append(static_cast<uint32_t>(word));
  } else {
    for (const uint64_t word : proto.uint64_data()) append(word);
  }
  return packed;
}

}  // namespace detent

#include "detent/onnx/weight_blocks.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "detent/core/error.h"
#include "detent/formats/format.h"
#include "detent/formats/packing/encode.h"
#include "detent/formats/verbs.h"
#include "detent/onnx/tensor_data.h"

namespace detent {
namespace {

constexpr int64_t kBlocksSince = 21;
constexpr int64_t kFloat4BlocksSince = 23;
constexpr const char* kFloat4 = "fp4_e2m1";

/// ONNX's element type of a format's codes, and the first opset that has it.
struct BlockElements {
  int64_t type;
  int bits;
  int64_t since;
};

BlockElements integers(int width, bool is_signed) {
  if (width <= 4) return {find_narrow_type(is_signed ? "INT4" : "UINT4")->onnx, 4, kBlocksSince};
  if (width <= 8) return {is_signed ? onnx::TensorProto::INT8 : onnx::TensorProto::UINT8, 8, kBlocksSince};
  return {is_signed ? onnx::TensorProto::INT16 : onnx::TensorProto::UINT16, 16, kBlocksSince};
}

std::optional<BlockElements> floats(std::string_view format) {
  const NarrowType* type = narrow_type_of_format(format);
  if (type == nullptr) return std::nullopt;
  return BlockElements{type->onnx, type->bits, format == kFloat4 ? kFloat4BlocksSince : kBlocksSince};
}

std::optional<BlockElements> group_elements(const QuantSpec& spec) {
  constexpr int kWidest = 16;
  if (spec.granularity != Granularity::kGroup) return std::nullopt;
  if (const std::optional<IntegerCodes> codes = integer_codes(spec.format))
    return codes->width <= kWidest ? std::optional(integers(codes->width, codes->is_signed)) : std::nullopt;
  const std::string_view standard = scaled_standard(spec.format);
  return standard.empty() ? std::nullopt : floats(standard);
}

bool has_single_blocks(const BlockSize& size) { return size.is_single() && size.sizes[0] != 0; }

std::optional<BlockElements> block_elements(const QuantSpec& spec) {
  if (has_tensor_scale(spec.format)) return floats(kFloat4);
  const std::optional<MxElement> element = mx_element(spec.format);
  if (!element || !has_single_blocks(*block_size(spec.format))) return std::nullopt;
  std::optional<BlockElements> elements;
  switch (*element) {
    case MxElement::kE4M3:
      return floats("fp8_e4m3fn");
    case MxElement::kE5M2:
      return floats("fp8_e5m2");
    case MxElement::kE2M1:
      elements = floats(kFloat4);
      break;
    case MxElement::kInt8:
      elements = integers(8, true);
      break;
    default:
      break;
  }
  if (elements) elements->since = kScalesOfPowersSince;
  return elements;
}

/// Width of the format's own codes.
int code_width(const QuantSpec& spec) {
  return static_cast<int>(std::visit([](const auto& format) { return format.bits(); }, spec.format));
}

/// Codes of fewer bits in more, in two's complement.
void widen(std::vector<uint32_t>& codes, int width, int bits, bool is_signed) {
  if (!is_signed || width == bits) return;
  const uint32_t sign = uint32_t{1} << (width - 1);
  const uint32_t mask = (uint32_t{1} << bits) - 1;
  for (uint32_t& code : codes) code = ((code ^ sign) - sign) & mask;
}

const Tensor* find_stream(const Encoded& encoded, std::string_view name) {
  for (const EncodedStream& stream : encoded.streams) {
    if (stream.name == name) return &stream.data;
  }
  return nullptr;
}

void take_scales(const Encoded& encoded, const QuantSpec& spec, WeightBlocks& result) {
  const Tensor& scales = *find_stream(encoded, "scales");
  if (spec.granularity == Granularity::kGroup) {
    result.scales.assign(scales.values<float>().begin(), scales.values<float>().end());
    if (const Tensor* zeros = find_stream(encoded, "zero_points")) {
      const uint32_t mask = (uint32_t{1} << result.bits) - 1;
      for (const int32_t zero : zeros->values<int32_t>())
        result.zero_points.push_back(static_cast<uint32_t>(zero) & mask);
    }
    return;
  }
  const bool is_two_level = has_tensor_scale(spec.format);
  const NarrowType& type =
      *find_narrow_type(is_two_level ? std::string_view("FLOAT8E4M3FN") : std::string_view("FLOAT8E8M0"));
  result.scale_type = type.onnx;
  result.scale_codes = unpacked_bits(scales, 8, element_count(result.scale_shape()));
  result.has_tensor_scale = is_two_level;
  if (is_two_level) result.tensor_scale = find_stream(encoded, "tensor_scale")->values<float>()[0];
  const bool is_int8 = mx_element(spec.format) == MxElement::kInt8;
  constexpr uint32_t kPlacesOfInt8 = 6;  // elements are multiples of 1/64
  std::string bytes;
  for (uint32_t& code : result.scale_codes) {
    if (is_int8 && code < kPlacesOfInt8) fail("a scale below 2^-127, which FLOAT8E8M0 has not");
    if (is_int8) code -= kPlacesOfInt8;
    bytes += static_cast<char>(code);
  }
  const Tensor values = unpacked(type, {std::ssize(result.scale_codes)}, std::as_bytes(std::span(bytes)));
  for (const float value : values.values<float>()) result.scales.push_back(value * result.tensor_scale);
}

/// [channels, elements of a channel] of a row-major tensor.
template <class T>
std::vector<T> rows_by_channel(const std::vector<T>& values, const Shape& shape, int64_t axis) {
  const int64_t channels = shape[static_cast<size_t>(axis)];
  const int64_t inner = element_count({shape.begin() + axis + 1, shape.end()});
  const int64_t outer = element_count({shape.begin(), shape.begin() + axis});
  std::vector<T> result;
  result.reserve(values.size());
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t o = 0; o < outer; ++o) {
      const auto first = values.begin() + (o * channels + c) * inner;
      result.insert(result.end(), first, first + inner);
    }
  }
  return result;
}

int64_t counted_axis(int64_t axis, const Shape& shape) { return axis < 0 ? axis + std::ssize(shape) : axis; }

/// The values that a DequantizeLinear gives.
std::vector<float> values_of_blocks(const WeightBlocks& blocks) {
  const NarrowType* type = find_narrow_type(blocks.type);
  std::vector<float> values;
  if (!blocks.is_integer()) {
    const std::string bytes = blocks.packed_codes();
    const Tensor floats = unpacked(*type, blocks.shape, std::as_bytes(std::span(bytes)));
    values.assign(floats.values<float>().begin(), floats.values<float>().end());
  }
  const int64_t count = blocks.shape[static_cast<size_t>(blocks.axis)];
  const int64_t per_row = blocks.scale_shape()[static_cast<size_t>(blocks.axis)];
  const int64_t stride = element_count({blocks.shape.begin() + blocks.axis + 1, blocks.shape.end()});
  const auto integer = [&](uint32_t code) {
    const uint32_t sign = blocks.is_signed() ? uint32_t{1} << (blocks.bits - 1) : 0;
    return static_cast<float>(static_cast<int32_t>((code ^ sign) - sign));
  };
  values.resize(blocks.codes.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    const auto place = static_cast<size_t>(
        (at / (stride * count) * per_row + at / stride % count / blocks.block) * stride + at % stride);
    const float zero = blocks.zero_points.empty() ? 0 : integer(blocks.zero_points[place]);
    const float code = blocks.is_integer() ? integer(blocks.codes[i]) - zero : values[i];
    values[i] = code * blocks.scales[place];
  }
  return values;
}

}  // namespace

bool WeightBlocks::is_integer() const {
  const NarrowType* narrow = find_narrow_type(type);
  return narrow == nullptr || !narrow->is_float();
}

bool WeightBlocks::is_signed() const {
  const NarrowType* narrow = find_narrow_type(type);
  return narrow != nullptr ? narrow->is_signed
                           : type == onnx::TensorProto::INT8 || type == onnx::TensorProto::INT16;
}

Shape WeightBlocks::scale_shape() const {
  Shape result = shape;
  int64_t& size = result[static_cast<size_t>(axis)];
  size = (size + block - 1) / block;
  return result;
}

std::vector<uint32_t> unpacked_bits(const Tensor& stream, int bits, int64_t count) {
  std::vector<uint32_t> codes(static_cast<size_t>(count));
  unpack_codes(Packing::kBits, bits, stream.values<uint8_t>().data(), count, codes.data());
  return codes;
}

std::string packed_bits(const std::vector<uint32_t>& codes, int bits) {
  std::string bytes(static_cast<size_t>(packed_size(Packing::kBits, bits, std::ssize(codes))), '\0');
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): bytes are bytes
  pack_codes(Packing::kBits, bits, codes.data(), std::ssize(codes), reinterpret_cast<uint8_t*>(bytes.data()));
  return bytes;
}

std::string WeightBlocks::packed_codes() const { return packed_bits(codes, bits); }

std::string WeightBlocks::packed_zero_points() const { return packed_bits(zero_points, bits); }

std::optional<int64_t> opset_of_blocks(const QuantSpec& spec) {
  const auto elements = spec.granularity == Granularity::kGroup ? group_elements(spec) : block_elements(spec);
  return elements ? std::optional(elements->since) : std::nullopt;
}

WeightBlocks weight_blocks(const QuantSpec& spec, const Tensor& tensor) {
  const bool is_group = spec.granularity == Granularity::kGroup;
  if (tensor.rank() < 2)
    fail("{}: groups of a tensor of shape {}", quant_spec_text(spec), shape_text(tensor.shape()));
  const BlockElements elements = is_group ? *group_elements(spec) : *block_elements(spec);
  const Encoded encoded = encode(spec, tensor);
  WeightBlocks result{
      .type = elements.type, .bits = elements.bits, .shape = tensor.shape(), .codes = {}, .scales = {}};
  const int width = code_width(spec);
  result.codes = unpacked_bits(encoded.codes(), width, tensor.numel());
  if (const std::optional<IntegerCodes> integers = integer_codes(spec.format))
    widen(result.codes, width, result.bits, integers->is_signed);
  if (is_group) {
    const int64_t channel = counted_axis(spec.axis, tensor.shape());
    result.codes = rows_by_channel(result.codes, tensor.shape(), channel);
    const int64_t channels = tensor.dim(channel);
    result.shape = {channels, tensor.numel() / std::max<int64_t>(channels, 1)};
    result.axis = 1;
    result.block = *spec.group_size;
  } else {
    result.axis = counted_axis(spec.block_axis.value_or(-1), tensor.shape());
    const int64_t size = std::visit(
        [](const auto& format) -> int64_t {
          if constexpr (requires { format.blocks(); }) return format.blocks().sizes[0];
          return 0;
        },
        spec.format);
    const int64_t whole = result.shape[static_cast<size_t>(result.axis)];
    result.block = size < 0 ? whole : std::min(size, whole);
  }
  take_scales(encoded, spec, result);
  const Tensor rounded = fake_quantize(spec, tensor);
  const auto wanted_span = rounded.values<float>();
  std::vector<float> wanted(wanted_span.begin(), wanted_span.end());
  if (is_group) wanted = rows_by_channel(wanted, tensor.shape(), counted_axis(spec.axis, tensor.shape()));
  const std::vector<float> values = values_of_blocks(result);
  const bool is_same = std::ranges::equal(values, wanted, [](float a, float b) {
    return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
  });
  if (!is_same) fail("{}: values that are not a code times a scale in float32", quant_spec_text(spec));
  return result;
}

WeightBlocks transposed(const WeightBlocks& matrix) {
  const auto exchanged = []<class T>(const std::vector<T>& values, const Shape& shape) {
    std::vector<T> result(values.size());
    const auto rows = static_cast<size_t>(shape[0]);
    const auto columns = static_cast<size_t>(shape[1]);
    for (size_t r = 0; r < rows && !values.empty(); ++r) {
      for (size_t c = 0; c < columns; ++c) result[c * rows + r] = values[r * columns + c];
    }
    return result;
  };
  const Shape scales = matrix.scale_shape();
  WeightBlocks result = matrix;
  result.shape = {matrix.shape[1], matrix.shape[0]};
  result.axis = 1 - matrix.axis;
  result.codes = exchanged(matrix.codes, matrix.shape);
  result.scales = exchanged(matrix.scales, scales);
  result.zero_points = exchanged(matrix.zero_points, scales);
  result.scale_codes = exchanged(matrix.scale_codes, scales);
  return result;
}

}  // namespace detent

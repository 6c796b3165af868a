#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/formats/quant_spec.h"

namespace detent {

/// A weight in codes, of which each `block` positions of dimension `axis` share a scale, as DequantizeLinear
/// takes it: value = (code - zero point) * scale, one float32 product.
struct WeightBlocks {
  int64_t type = 0;  // of the codes, as ONNX counts element types
  int bits = 8;      // that a code of it takes
  Shape shape;
  std::vector<uint32_t> codes;  // row-major; those of integers in two's complement
  int64_t axis = 0;
  int64_t block = 1;
  std::vector<float> scales;               // row-major, of scale_shape()
  std::vector<uint32_t> zero_points = {};  // as many, or none: 0
  /// Codes of the scales, with their element type; none: float32.
  std::vector<uint32_t> scale_codes = {};
  int64_t scale_type = 0;
  bool has_tensor_scale = false;
  float tensor_scale = 1;  // times which scale codes are scales

  bool is_integer() const;
  bool is_signed() const;
  Shape scale_shape() const;
  /// Bytes as a model has them.
  std::string packed_codes() const;
  std::string packed_zero_points() const;
};

/// The first whose DequantizeLinear takes scales of FLOAT8E8M0.
inline constexpr int64_t kScalesOfPowersSince = 24;

/// The first operator set whose DequantizeLinear takes weights of the spec, a scale a group or block, so that
/// they come back as these: 21, of floats of 4 bits 23, mx of these and of int8 24. Nothing where none does,
/// or where the spec has no such scales.
std::optional<int64_t> opset_of_blocks(const QuantSpec& spec);

/// The codes that a spec gives, one that has an opset and says its parameters where it can. Groups lie in a
/// matrix [channels, elements of a channel], blocks in the tensor as it is. Throws Error where the tensor has
/// fewer than two dimensions, or a value is beyond float32.
WeightBlocks weight_blocks(const QuantSpec& spec, const Tensor& tensor);

/// Rows and columns of a matrix exchanged.
WeightBlocks transposed(const WeightBlocks& matrix);

/// Codes one after another, the first in the lowest bits.
std::string packed_bits(const std::vector<uint32_t>& codes, int bits);
/// The first `count` of them from bytes, of which there are enough.
std::vector<uint32_t> unpacked_bits(const Tensor& bytes, int bits, int64_t count);

}  // namespace detent

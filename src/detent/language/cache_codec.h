#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/formats/quant_spec.h"
#include "detent/inference/code_type.h"

namespace detent {

/// Storage of cached elements in a byte or half of one: signed integers, or indices of a table.
///
///     values of integer formats   (byte - zero point) * scale
///     values of other formats     table[byte] * scale
///     codes                       byte + offset
///
/// with a scale and a zero point per row, if any.
class CacheCodec {
 public:
  /// For rows that are rounded to an element format, each by itself; null where its codes have more than 8
  /// bits, or its values are not codes times a scale.
  static std::shared_ptr<const CacheCodec> of_format(const Format& format);
  /// For codes of a type; null if they have more than 8 bits.
  static std::shared_ptr<const CacheCodec> of_codes(const CodeType& type);

  /// Whether two elements share a byte.
  bool in_nibbles() const { return in_nibbles_; }
  bool has_scales() const { return has_scales_; }
  bool has_zero_points() const { return has_zero_points_; }
  /// That of codes.
  const std::optional<int32_t>& offset() const { return offset_; }
  /// By the unsigned byte or nibble; null of integers.
  const float* table() const { return table_ ? table_->data() : nullptr; }

  struct Rows {
    Tensor bytes;  // int8, also where two of them will share one
    std::vector<float> scales;
    std::vector<float> zero_points;
  };
  /// Takes [rows, size]: float32, or int32 codes. Throws Error on a NaN that the format does not have.
  Rows encoded(const Tensor& rows) const;

 private:
  using ByteValues = std::array<float, 256>;

  CacheCodec() = default;
  Rows encoded_values(const Tensor& rows) const;
  bool multiplies() const;

  std::optional<QuantSpec> spec_;  // of rows; none of codes
  int width_ = 8;
  int32_t middle_ = 0;     // what is taken from unsigned integers
  bool is_signed_ = true;  // integers
  bool in_nibbles_ = false;
  bool has_scales_ = false;
  bool has_zero_points_ = false;
  std::optional<int32_t> offset_;
  std::optional<ByteValues> table_;
};

}  // namespace detent

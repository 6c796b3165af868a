#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "detent/core/value.h"
#include "detent/formats/quant_spec.h"

namespace detent {

/// "int8", "uint4": an integer type of 2 to 16 bits.
struct IntegerType {
  bool is_signed = true;
  int width = 8;

  static std::string field_type() { return "int2 to int16 or uint2 to uint16"; }
  Value to_value() const;
  static IntegerType from_value(const Value& value, const std::string& where);
  /// nullopt for other texts.
  static std::optional<IntegerType> parse(std::string_view text);
  bool operator==(const IntegerType&) const = default;
};

/// The number of bits of a code, 2 to 16, in decimal; nullopt when the text is none.
std::optional<int> parse_width(std::string_view text);

/// Format of quantized operands: "int8", integers of 2 to 16 bits whose scales and zero points calibration
/// chooses, or any other number format: "nvfp4", "log:width=4"; "float32": not quantized.
struct OperandFormat {
  IntegerType integer = {};
  std::optional<QuantSpec> other = std::nullopt;  // instead of integers
  bool is_float = false;                          // instead of both

  static std::string field_type() {
    return "int2 to int16, uint2 to uint16, a number format as fp8_e4m3fn, nvfp4, int4_g64, log:width=4, or "
           "float32, "
           "which quantizes nothing";
  }
  /// The text that `from_value` reads.
  Value to_value() const;
  static OperandFormat from_value(const Value& value, const std::string& where);
  /// Throws Error beginning with `where`.
  static OperandFormat parse(std::string_view text, const std::string& where);

  bool is_integer() const { return !other && !is_float; }
  /// Bits of a code, without scales, or of a float.
  double bits() const;
  /// "8", "nvfp4", "float32": for folder names.
  std::string short_name() const;

  bool operator==(const OperandFormat&) const = default;
};

}  // namespace detent

#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "detent/core/value.h"

namespace detent {

/// "int8", "uint4": an integer type of 2 to 16 bits.
struct IntegerType {
  bool is_signed = true;
  int width = 8;

  static std::string field_type() { return "int2 to int16 or uint2 to uint16"; }
  Value to_value() const;
  static IntegerType from_value(const Value& value, const std::string& where);
  /// nullopt when the text is none.
  static std::optional<IntegerType> parse(std::string_view text);
  bool operator==(const IntegerType&) const = default;
};

/// The number of bits of a code, 2 to 16, in decimal; nullopt when the text is none.
std::optional<int> parse_width(std::string_view text);

}  // namespace detent

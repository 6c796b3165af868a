#pragma once

#include <string>
#include <vector>

#include "detent/core/value.h"
#include "detent/formats/quant_spec.h"

namespace detent {

/// Formats to choose from for operands of some nodes.
struct FormatChoice {
  std::string pattern;               // a regular expression for names of nodes, or an operator
  std::string operand;               // "weight" or "data_in"
  std::vector<std::string> formats;  // as parse_quant_spec_text reads them, or "float"
  bool operator==(const FormatChoice&) const = default;
};

/// As text
///
///     layer1.*:weight=int4|int8,linear:data_in=uint8|float
///
/// or as tables of a configuration file
///
///     [search.choices.'layer1.*']
///     weight = ["int4", "int8"]
struct FormatChoices {
  std::vector<FormatChoice> entries;

  static std::string field_type() { return "PATTERN:OPERAND=FORMAT|FORMAT,..."; }
  Value to_value() const;
  static FormatChoices from_value(const Value& value, const std::string& where);
  bool operator==(const FormatChoices&) const = default;
};

/// The operands that have choices.
inline constexpr const char* kWeightOperand = "weight";
inline constexpr const char* kInputOperand = "data_in";

/// The choice that quantizes nothing.
inline constexpr const char* kFloatFormat = "float";

/// A choice other than that. Throws Error, which begins with `where`, for what is no format.
QuantSpec parse_format_text(const std::string& text, const std::string& where);

}  // namespace detent

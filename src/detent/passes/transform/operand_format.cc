#include "detent/passes/transform/operand_format.h"

#include <cctype>

#include <fmt/format.h>

#include "detent/core/error.h"
#include "detent/core/error_fields.h"
#include "detent/formats/format.h"

namespace detent {

OperandFormat OperandFormat::parse(std::string_view text, const std::string& where) {
  if (const std::optional<IntegerType> type = IntegerType::parse(text)) return {*type};
  QuantSpec spec;
  try {
    spec = parse_quant_spec_text(text);
  } catch (const Error& error) {
    throw with_fields(error, fmt::format("{}: {}", where, error.what()), {});
  }
  if (spec.block_axis || spec.scale_rule == ScaleRule::kLearned) {
    fail(
        "{}: got {}, expected it without block_axis and scale_rule: blocks run along what a layer sums over, "
        "and "
        "scales are calibrated",
        where, text);
  }
  return {.integer = {}, .other = std::move(spec)};
}

Value OperandFormat::to_value() const { return other ? Value(quant_spec_text(*other)) : integer.to_value(); }

OperandFormat OperandFormat::from_value(const Value& value, const std::string& where) {
  const auto* text = value.get_if<std::string>();
  if (text == nullptr) {
    fail_value(where, value_text(value), field_type(), {}, fmt::format(" ({})", value.kind_name()));
  }
  return parse(*text, where);
}

double OperandFormat::bits() const { return other ? bits_per_value(other->format) : integer.width; }

std::string OperandFormat::short_name() const {
  if (!other) return std::to_string(integer.width);
  const std::string name(format_name(other->format));
  const bool says_bits = std::isdigit(static_cast<unsigned char>(name.back())) != 0 || name.find("fp") == 0;
  return says_bits ? name : fmt::format("{}{:g}", name, bits());
}

}  // namespace detent

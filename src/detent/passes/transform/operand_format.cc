#include "detent/passes/transform/operand_format.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <iterator>

#include <fmt/format.h>

#include "detent/core/error.h"
#include "detent/core/error_fields.h"
#include "detent/formats/format.h"
#include "detent/formats/named_formats.h"

namespace detent {
namespace {

constexpr const char* kFloat = "float32";

/// Whether `text` stands for "float32": it is called so elsewhere, or misspelt and no format is nearer.
bool means_float(std::string_view text) {
  constexpr std::string_view kOtherNames[] = {"float", "fp32", "f32", "float_32", "single", "none"};
  std::string name(text);
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  if (std::ranges::find(kOtherNames, name) != std::end(kOtherNames) || name == kFloat) return true;
  if (!format_called(text).empty() || !nearest_name(text, format_names()).empty()) return false;
  const std::string known[] = {kFloat};
  return !nearest_name(name, known).empty();
}

}  // namespace

std::optional<int> parse_width(std::string_view text) {
  constexpr int kLeast = 2;
  constexpr int kMost = 16;
  int width = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), width);
  const bool complete = error == std::errc() && end == text.data() + text.size();
  return complete && width >= kLeast && width <= kMost ? std::optional(width) : std::nullopt;
}

std::optional<IntegerType> IntegerType::parse(std::string_view text) {
  const bool is_signed = !text.starts_with('u');
  if (!is_signed) text.remove_prefix(1);
  if (!text.starts_with("int")) return std::nullopt;
  const std::optional<int> width = parse_width(text.substr(3));
  return width ? std::optional(IntegerType{is_signed, *width}) : std::nullopt;
}

Value IntegerType::to_value() const { return fmt::format("{}int{}", is_signed ? "" : "u", width); }

IntegerType IntegerType::from_value(const Value& value, const std::string& where) {
  const auto* text = value.get_if<std::string>();
  const std::optional<IntegerType> type = text == nullptr ? std::nullopt : parse(*text);
  if (!type) fail("{}: got {}, expected {}", where, value_text(value), field_type());
  return *type;
}

OperandFormat OperandFormat::parse(std::string_view text, const std::string& where) {
  if (text == kFloat) return {.is_float = true};
  if (const std::optional<IntegerType> type = IntegerType::parse(text)) return {*type};
  if (means_float(text)) {
    const std::string message = fmt::format(
        "{}: unknown format \"{}\": did you mean \"{}\", which quantizes nothing?", where, text, kFloat);
    throw DetailedError(message, {.got = std::string(text), .allowed = kFloat});
  }
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

Value OperandFormat::to_value() const {
  if (is_float) return kFloat;
  return other ? Value(quant_spec_text(*other)) : integer.to_value();
}

OperandFormat OperandFormat::from_value(const Value& value, const std::string& where) {
  const auto* text = value.get_if<std::string>();
  if (text == nullptr) {
    fail_value(where, value_text(value), field_type(), {}, fmt::format(" ({})", value.kind_name()));
  }
  return parse(*text, where);
}

double OperandFormat::bits() const {
  constexpr double kFloatBits = 32;
  if (is_float) return kFloatBits;
  return other ? bits_per_value(other->format) : integer.width;
}

std::string OperandFormat::short_name() const {
  if (is_float) return kFloat;
  if (!other) return std::to_string(integer.width);
  const std::string name(format_name(other->format));
  const bool says_bits = std::isdigit(static_cast<unsigned char>(name.back())) != 0 || name.find("fp") == 0;
  return says_bits ? name : fmt::format("{}{:g}", name, bits());
}

}  // namespace detent

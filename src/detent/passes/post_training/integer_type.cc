#include "detent/passes/post_training/integer_type.h"

#include <charconv>

#include "detent/core/error.h"

namespace detent {

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

}  // namespace detent

#include "detent/search/format_choices.h"

#include <string_view>

#include "detent/core/error.h"
#include "detent/core/error_fields.h"

namespace detent {
namespace {

/// Cut at `separator`, except in brackets.
std::vector<std::string> parts_of(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == ']' || c == '}') --depth;
    if (c == separator && depth <= 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

void check_operand(const std::string& operand, const std::string& where) {
  const std::vector<std::string> known = {kWeightOperand, kInputOperand};
  if (operand != known[0] && operand != known[1]) fail_unknown(where, "operand", operand, known);
}

/// Entries are separated by commas, but so are the keys of a format: an entry begins where there is a colon
/// before the first "=".
std::vector<std::string> entries_of(const std::string& text) {
  std::vector<std::string> entries;
  for (std::string& part : parts_of(text, ',')) {
    const size_t equals = part.find('=');
    const bool begins = entries.empty() || part.substr(0, equals).find(':') != std::string::npos;
    if (begins) {
      entries.push_back(std::move(part));
    } else {
      entries.back() += "," + part;
    }
  }
  return entries;
}

FormatChoice parse_entry(const std::string& text, const std::string& where) {
  const size_t equals = text.find('=');
  const size_t colon = text.substr(0, equals).rfind(':');
  if (equals == std::string::npos || colon == std::string::npos || colon == 0) {
    fail("{}: got \"{}\", expected PATTERN:OPERAND=FORMAT|FORMAT, as 'layer1.*:weight=int4|int8'", where,
         text);
  }
  FormatChoice choice{text.substr(0, colon), text.substr(colon + 1, equals - colon - 1),
                      parts_of(text.substr(equals + 1), '|')};
  check_operand(choice.operand, fmt::format("{}: \"{}\"", where, text));
  return choice;
}

std::vector<std::string> format_list(const Value& value, const std::string& where) {
  if (const auto* text = value.get_if<std::string>()) return {*text};
  const auto* list = value.get_if<List>();
  if (list == nullptr) fail("{}: got {}, expected a list of formats", where, value_text(value));
  std::vector<std::string> formats;
  for (const Value& element : *list) {
    const auto* text = element.get_if<std::string>();
    if (text == nullptr) fail("{}: got {}, expected the text of a format", where, value_text(element));
    formats.push_back(*text);
  }
  return formats;
}

}  // namespace

Value FormatChoices::to_value() const {
  if (entries.empty()) return {};
  std::string text;
  for (const FormatChoice& choice : entries) {
    text += fmt::format("{}{}:{}=", text.empty() ? "" : ",", choice.pattern, choice.operand);
    for (size_t i = 0; i < choice.formats.size(); ++i) text += (i == 0 ? "" : "|") + choice.formats[i];
  }
  return text;
}

FormatChoices FormatChoices::from_value(const Value& value, const std::string& where) {
  FormatChoices choices;
  if (value.is_na()) return choices;
  if (const auto* text = value.get_if<std::string>()) {
    for (const std::string& entry : entries_of(*text)) choices.entries.push_back(parse_entry(entry, where));
    return choices;
  }
  const auto* table = value.get_if<Table>();
  if (table == nullptr)
    fail("{}: got {}, expected tables, or text {}", where, value_text(value), field_type());
  for (const auto& [pattern, operands] : *table) {
    const std::string place = fmt::format("{}: \"{}\"", where, pattern);
    const auto* keys = operands.get_if<Table>();
    if (keys == nullptr || keys->empty())
      fail("{}: got {}, expected a table with weight, data_in or both", place, value_text(operands));
    for (const auto& [operand, formats] : *keys) {
      check_operand(operand, place);
      choices.entries.push_back(
          {pattern, operand, format_list(formats, fmt::format("{}, {}", place, operand))});
    }
  }
  return choices;
}

QuantSpec parse_format_text(const std::string& text, const std::string& where) {
  try {
    QuantSpec spec = parse_quant_spec_text(text);
    validate(spec, where);
    return spec;
  } catch (const Error& error) {
    // Beside the formats, a name may be kFloatFormat.
    const std::string_view names = "(known: ";
    std::string message = error.what();
    ErrorFields fields = fields_of(error);
    if (const size_t at = message.find(names); fields.got == text && at != std::string::npos) {
      message.insert(at + names.size(), fmt::format("{}, ", kFloatFormat));
      fields.allowed = fmt::format("{}, {}", kFloatFormat, fields.allowed);
    }
    throw DetailedError(fmt::format("{}: {}", where, message), fields);
  }
}

}  // namespace detent

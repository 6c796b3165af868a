#include "detent/formats/named_formats.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "detent/core/error.h"

namespace detent {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// Cuts `rest` at the first `separator` and returns what is before it.
std::string_view cut(std::string_view& rest, char separator) {
  const auto at = rest.find(separator);
  const std::string_view head = rest.substr(0, at);
  rest = at == std::string_view::npos ? std::string_view() : rest.substr(at + 1);
  return head;
}

/// Nothing unless all of `text` is a number of type T.
template <class T>
std::optional<T> whole_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<List> parse_list(std::string_view text) {
  if (text.find('x') == std::string_view::npos) return std::nullopt;
  List list;
  while (!text.empty()) {
    const std::string_view number = cut(text, 'x');
    if (const auto integer = whole_number<int64_t>(number)) {
      list.emplace_back(*integer);
    } else if (const auto real = whole_number<double>(number)) {
      list.emplace_back(*real);
    } else {
      return std::nullopt;
    }
  }
  return list;
}

Value parse_value(std::string_view text) {
  if (text == "NA") return {};
  if (text == "true" || text == "false") return text == "true";
  if (const auto integer = whole_number<int64_t>(text)) return *integer;
  if (const auto real = whole_number<double>(text)) return *real;
  if (auto list = parse_list(text)) return std::move(*list);
  return std::string(text);
}

std::string write_value(const Value& value) {
  if (const auto* text = value.get_if<std::string>()) return *text;
  if (const auto* real = value.get_if<double>()) {
    const auto narrow = static_cast<float>(*real);
    const std::string text = fmt::format("{}", narrow);
    const bool exact = static_cast<double>(narrow) == *real && text.find_first_of(".en") != std::string::npos;
    return exact ? text : float_text(*real);
  }
  const auto* list = value.get_if<List>();
  if (list == nullptr) return value_text(value);
  std::string text;
  for (const Value& element : *list) text += (text.empty() ? "" : "x") + write_value(element);
  return list->size() == 1 ? text + "x" : text;
}

}  // namespace

TextForm parse_text_form(std::string_view text, const std::string& where) {
  TextForm form;
  std::string_view rest = text;
  form.name = trimmed(cut(rest, ':'));
  if (form.name.empty()) fail("{}: expected name:key=value,key=value", where);
  if (text.find(':') != std::string_view::npos && trimmed(rest).empty()) {
    fail("{}: expected key=value after the colon", where);
  }
  while (!rest.empty()) {
    std::string_view value = cut(rest, ',');
    const std::string_view part = value;
    const std::string_view key = trimmed(cut(value, '='));
    value = trimmed(value);
    if (key.empty() || value.empty()) fail("{}: got \"{}\", expected key=value", where, part);
    if (form.keys.contains(key)) fail("{}: key \"{}\" is given twice", where, key);
    form.keys[key] = parse_value(value);
  }
  return form;
}

std::string text_form(std::string_view name, const Table& keys) {
  std::string text(name);
  for (const auto& [key, value] : keys) {
    text += fmt::format("{}{}={}", text.size() == name.size() ? ":" : ",", key, write_value(value));
  }
  return text;
}

}  // namespace detent

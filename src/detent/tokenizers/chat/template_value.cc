#include "detent/tokenizers/chat/template_value.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "detent/core/error.h"
#include "detent/tokenizers/unicode.h"

namespace detent {
namespace {

/// Values in values that are written out.
constexpr int kDeepestValue = 60;

std::string float_of_python(double value) {
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  if (std::isnan(value)) return "nan";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

void quote(std::string& result, std::string_view text, char mark, bool as_json) {
  result += mark;
  for (size_t i = 0; i < text.size();) {
    const size_t begin = i;
    const char32_t code = next_character(text, i);
    if (code == '\n') {
      result += "\\n";
    } else if (code == '\r') {
      result += "\\r";
    } else if (code == '\t') {
      result += "\\t";
    } else if (as_json && code == '\b') {
      result += "\\b";
    } else if (as_json && code == '\f') {
      result += "\\f";
    } else if (code == '\\' || code == static_cast<unsigned char>(mark)) {
      result += '\\';
      result += static_cast<char>(code);
    } else if (code < 0x20 || (!as_json && code == 0x7F)) {
      result += as_json ? fmt::format("\\u{:04x}", static_cast<uint32_t>(code))
                        : fmt::format("\\x{:02x}", static_cast<uint32_t>(code));
    } else {
      result += text.substr(begin, i - begin);
    }
  }
  result += mark;
}

/// Python's repr(), where texts have quotation marks.
void represent(std::string& result, const TemplateValue& value, int depth) {
  if (depth > kDeepestValue) fail("a value holds values deeper than {} levels", kDeepestValue);
  if (const std::string* text = value.text()) {
    const bool doubled = text->find('\'') != std::string::npos && text->find('"') == std::string::npos;
    return quote(result, *text, doubled ? '"' : '\'', false);
  }
  std::string_view separator;
  if (const TemplateList* list = value.list()) {
    result += '[';
    for (const TemplateValue& entry : *list) {
      result += std::exchange(separator, ", ");
      represent(result, entry, depth + 1);
    }
    result += ']';
  } else if (const TemplateTable* table = value.table()) {
    result += '{';
    for (const auto& [key, entry] : *table) {
      result += std::exchange(separator, ", ");
      represent(result, TemplateValue::of(key), depth + 1);
      result += ": ";
      represent(result, entry, depth + 1);
    }
    result += '}';
  } else {
    result += to_text(value);
  }
}

void new_line(std::string& result, int64_t indent, int depth) {
  if (indent < 0) return;
  result += '\n';
  result.append(static_cast<size_t>(indent) * static_cast<size_t>(depth), ' ');
}

void write_template_json(std::string& result, const TemplateValue& value, int64_t indent, int depth) {
  if (depth > kDeepestValue) fail("a value holds values deeper than {} levels", kDeepestValue);
  const std::string_view separator = indent < 0 ? ", " : ",";
  if (const std::string* text = value.text()) return quote(result, *text, '"', true);
  if (value.is_none()) {
    result += "null";
  } else if (const bool* flag = value.boolean()) {
    result += *flag ? "true" : "false";
  } else if (value.is_undefined()) {
    fail("an undefined value cannot be written as JSON");
  } else if (const TemplateList* list = value.list()) {
    result += '[';
    for (size_t i = 0; i < list->size(); ++i) {
      if (i > 0) result += separator;
      new_line(result, indent, depth + 1);
      write_template_json(result, (*list)[i], indent, depth + 1);
    }
    if (!list->empty()) new_line(result, indent, depth);
    result += ']';
  } else if (const TemplateTable* table = value.table()) {
    result += '{';
    for (size_t i = 0; i < table->size(); ++i) {
      if (i > 0) result += separator;
      new_line(result, indent, depth + 1);
      quote(result, (*table)[i].first, '"', true);
      result += ": ";
      write_template_json(result, (*table)[i].second, indent, depth + 1);
    }
    if (!table->empty()) new_line(result, indent, depth);
    result += '}';
  } else {
    result += to_text(value);
  }
}

}  // namespace

TemplateValue TemplateValue::of(TemplateList value) {
  int depth = 0;
  for (const TemplateValue& entry : value) depth = std::max(depth, entry.depth_);
  if (depth >= kDeepestValue) fail("values deeper than {} levels are not supported", kDeepestValue);
  TemplateValue result(Storage(std::make_shared<TemplateList>(std::move(value))));
  result.depth_ = depth + 1;
  return result;
}

TemplateValue TemplateValue::of(TemplateTable value) {
  int depth = 0;
  for (const auto& entry : value) depth = std::max(depth, entry.second.depth_);
  if (depth >= kDeepestValue) fail("values deeper than {} levels are not supported", kDeepestValue);
  TemplateValue result(Storage(std::make_shared<TemplateTable>(std::move(value))));
  result.depth_ = depth + 1;
  return result;
}

TemplateList* TemplateValue::list() const {
  const auto* list = std::get_if<std::shared_ptr<TemplateList>>(&storage_);
  return list == nullptr ? nullptr : list->get();
}

TemplateTable* TemplateValue::table() const {
  const auto* table = std::get_if<std::shared_ptr<TemplateTable>>(&storage_);
  return table == nullptr ? nullptr : table->get();
}

TemplateValue TemplateValue::from(const Value& value) {
  if (const auto* flag = value.get_if<bool>()) return of(*flag);
  if (const auto* number = value.get_if<int64_t>()) return of(*number);
  if (const auto* number = value.get_if<double>()) return of(*number);
  if (const auto* text = value.get_if<std::string>()) return of(with_valid_utf8(*text));
  if (const auto* list = value.get_if<List>()) {
    TemplateList result;
    for (const Value& entry : *list) result.push_back(from(entry));
    return of(std::move(result));
  }
  if (const auto* table = value.get_if<Table>()) {
    TemplateTable result;
    for (const TableEntry& entry : *table) result.emplace_back(entry.key, from(entry.value));
    return of(std::move(result));
  }
  return none();
}

bool TemplateValue::number(double& result) const {
  if (const bool* flag = boolean()) result = *flag ? 1 : 0;
  if (const int64_t* whole = integer()) result = static_cast<double>(*whole);
  if (const double* real = floating()) result = *real;
  return boolean() != nullptr || integer() != nullptr || floating() != nullptr;
}

bool TemplateValue::is_true() const {
  double value = 0;
  if (number(value)) return value != 0;
  if (const std::string* content = text()) return !content->empty();
  if (const TemplateList* entries = list()) return !entries->empty();
  if (const TemplateTable* entries = table()) return !entries->empty();
  return false;
}

std::string_view TemplateValue::kind() const {
  constexpr std::string_view kKinds[] = {"undefined", "none", "bool", "int", "float", "str", "list", "dict"};
  return kKinds[storage_.index()];
}

bool TemplateValue::operator==(const TemplateValue& other) const {
  double left = 0;
  double right = 0;
  if (number(left) && other.number(right)) return left == right;
  if (storage_.index() != other.storage_.index()) return false;
  if (text() != nullptr) return *text() == *other.text();
  if (list() != nullptr) return *list() == *other.list();
  if (table() == nullptr) return true;
  const TemplateTable& entries = *table();
  return entries.size() == other.table()->size() && std::ranges::all_of(entries, [&](const auto& entry) {
           const TemplateValue* found = find_key(*other.table(), entry.first);
           return found != nullptr && *found == entry.second;
         });
}

TemplateValue* find_key(TemplateTable& table, std::string_view key) {
  for (auto& entry : table)
    if (entry.first == key) return &entry.second;
  return nullptr;
}

std::string to_text(const TemplateValue& value) {
  if (const std::string* text = value.text()) return *text;
  if (const int64_t* number = value.integer()) return fmt::format("{}", *number);
  if (const double* number = value.floating()) return float_of_python(*number);
  if (const bool* flag = value.boolean()) return *flag ? "True" : "False";
  if (value.is_none()) return "None";
  if (value.is_undefined()) return "";
  std::string result;
  represent(result, value, 0);
  return result;
}

std::string to_json(const TemplateValue& value, int64_t indent) {
  std::string result;
  write_template_json(result, value, indent, 0);
  return result;
}

int compare(const TemplateValue& left, const TemplateValue& right) {
  double a = 0;
  double b = 0;
  if (left.number(a) && right.number(b)) return a < b ? -1 : a > b ? 1 : 0;
  if (left.text() != nullptr && right.text() != nullptr) {
    const int order = left.text()->compare(*right.text());
    return order < 0 ? -1 : order > 0 ? 1 : 0;
  }
  fail("{} and {} have no order", left.kind(), right.kind());
}

bool is_python_space(char32_t code) {
  return (code >= 0x1C && code <= 0x1F) || properties_of(code).has(kIsSpace);
}

std::string stripped(std::string_view text, std::string_view characters, bool left, bool right) {
  const std::u32string all = to_characters(text);
  const std::u32string taken = to_characters(characters);
  const auto drops = [&](char32_t code) {
    return taken.empty() ? is_python_space(code) : taken.find(code) != std::u32string::npos;
  };
  size_t begin = 0;
  size_t end = all.size();
  while (left && begin < end && drops(all[begin])) ++begin;
  while (right && end > begin && drops(all[end - 1])) --end;
  return to_utf8(std::u32string_view(all).substr(begin, end - begin));
}

}  // namespace detent

#include "detent/core/value.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "detent/core/error.h"

namespace detent {

Table::Table() = default;
Table::Table(std::initializer_list<TableEntry> entries) : entries_(entries) {}
Table::Table(const Table&) = default;
Table::Table(Table&&) noexcept = default;
Table& Table::operator=(const Table&) = default;
Table& Table::operator=(Table&&) noexcept = default;
Table::~Table() = default;

size_t Table::size() const { return entries_.size(); }

const Value* Table::find(std::string_view key) const {
  const auto it = std::ranges::find(entries_, key, &TableEntry::key);
  return it == entries_.end() ? nullptr : &it->value;
}

Value* Table::find(std::string_view key) {
  const auto it = std::ranges::find(entries_, key, &TableEntry::key);
  return it == entries_.end() ? nullptr : &it->value;
}

Value& Table::operator[](std::string_view key) {
  if (Value* found = find(key)) return *found;
  return entries_.emplace_back(TableEntry{std::string(key), Value()}).value;
}

Table& Table::table(std::string_view key) {
  Value& value = (*this)[key];
  if (value.is_na()) value = Value(Table());
  Table* nested = value.get_if<Table>();
  DETENT_CHECK(nested != nullptr, "\"{}\" is {}, not a table", key, value.kind_name());
  return *nested;
}

bool Table::erase(std::string_view key) {
  return std::erase_if(entries_, [&](const TableEntry& entry) { return entry.key == key; }) > 0;
}

std::vector<std::string> Table::keys() const {
  std::vector<std::string> result;
  for (const TableEntry& entry : entries_) result.push_back(entry.key);
  return result;
}

bool Table::operator==(const Table& other) const { return entries_ == other.entries_; }

const double* Value::number(double& scratch) const {
  if (const double* real = get_if<double>()) return real;
  if (const int64_t* integer = get_if<int64_t>()) {
    scratch = static_cast<double>(*integer);
    return &scratch;
  }
  return nullptr;
}

std::string_view Value::kind_name() const {
  constexpr std::string_view kNames[] = {"NA",       "a boolean", "an integer", "a float",
                                         "a string", "a list",    "a table"};
  return kNames[storage_.index()];
}

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

namespace {

struct ValueText {
  std::string operator()(std::monostate) const { return "NA"; }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(double value) const { return float_text(value); }
  std::string operator()(const std::string& value) const { return fmt::format("\"{}\"", value); }
  std::string operator()(const List& list) const {
    std::string text = "[";
    for (const Value& value : list) text += (text.size() > 1 ? ", " : "") + value_text(value);
    return text + "]";
  }
  std::string operator()(const Table& table) const {
    std::string text = "{";
    for (const auto& [key, value] : table) {
      text += fmt::format("{}{} = {}", text.size() > 1 ? ", " : "", key, value_text(value));
    }
    return text + "}";
  }
};

}  // namespace

std::string value_text(const Value& value) { return std::visit(ValueText{}, value.storage()); }

}  // namespace detent

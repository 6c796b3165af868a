#include "detent/core/value.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <unordered_map>

#include <fmt/format.h>

#include "detent/core/error.h"

namespace detent {

namespace {

constexpr size_t kMostUnindexed = 16;

struct KeyHash {
  using is_transparent = void;
  size_t operator()(std::string_view key) const { return std::hash<std::string_view>()(key); }
};

}  // namespace

struct Table::Index {
  std::unordered_map<std::string, size_t, KeyHash, std::equal_to<>> positions;
};

Value::Value() = default;
Value::Value(bool value) : storage_(value) {}
Value::Value(int value) : storage_(int64_t{value}) {}
Value::Value(int64_t value) : storage_(value) {}
Value::Value(double value) : storage_(value) {}
Value::Value(const char* value) : storage_(std::string(value)) {}
Value::Value(std::string value) : storage_(std::move(value)) {}
Value::Value(List value) : storage_(std::move(value)) {}
Value::Value(Table value) : storage_(std::move(value)) {}
Value::Value(const std::vector<int64_t>& values) : storage_(List(values.begin(), values.end())) {}
Value::Value(const Value&) = default;
Value::Value(Value&&) noexcept = default;
Value& Value::operator=(const Value&) = default;
Value& Value::operator=(Value&&) noexcept = default;
Value::~Value() = default;
bool Value::operator==(const Value& other) const { return storage_ == other.storage_; }

Table::Table() = default;
Table::Table(std::initializer_list<TableEntry> entries) : entries_(entries) { index_entries(); }
Table::Table(const Table& other) : entries_(other.entries_) { index_entries(); }
Table::Table(Table&& other) noexcept = default;
Table& Table::operator=(const Table& other) { return *this = Table(other); }
Table& Table::operator=(Table&&) noexcept = default;
Table::~Table() = default;

void Table::index_entries() {
  index_.reset();
  if (entries_.size() <= kMostUnindexed) return;
  index_ = std::make_unique<Index>();
  index_->positions.reserve(entries_.size());
  for (size_t i = 0; i < entries_.size(); ++i) index_->positions.emplace(entries_[i].key, i);
}

size_t Table::position(std::string_view key) const {
  if (index_ == nullptr) {
    return static_cast<size_t>(std::ranges::find(entries_, key, &TableEntry::key) - entries_.begin());
  }
  const auto found = index_->positions.find(key);
  return found == index_->positions.end() ? entries_.size() : found->second;
}

size_t Table::size() const { return entries_.size(); }

const Value* Table::find(std::string_view key) const {
  const size_t found = position(key);
  return found == entries_.size() ? nullptr : &entries_[found].value;
}

Value* Table::find(std::string_view key) { return const_cast<Value*>(std::as_const(*this).find(key)); }

Value& Table::operator[](std::string_view key) {
  if (Value* found = find(key)) return *found;
  Value& value = entries_.emplace_back(TableEntry{std::string(key), Value()}).value;
  if (index_ != nullptr) {
    index_->positions.emplace(key, entries_.size() - 1);
  } else {
    index_entries();
  }
  return value;
}

Table& Table::table(std::string_view key) {
  Value& value = (*this)[key];
  if (value.is_na()) value = Value(Table());
  Table* nested = value.get_if<Table>();
  DETENT_CHECK(nested != nullptr, "\"{}\" is {}, not a table", key, value.kind_name());
  return *nested;
}

bool Table::erase(std::string_view key) {
  const size_t found = position(key);
  if (found == entries_.size()) return false;
  entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(found));
  index_entries();
  return true;
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

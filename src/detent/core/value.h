#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace detent {

/// Name of an enumerator of an enum E with `constexpr auto enum_names(E)`, an array whose i-th name is that
/// of the value i.
template <class E>
constexpr const char* enum_name(E value) {
  return enum_names(value)[static_cast<size_t>(value)];
}

class Value;
struct TableEntry;
using List = std::vector<Value>;

/// Unique keys and values in insertion order. Look-up takes constant time, removal linear time. Loops may
/// change values, not keys.
class Table {
 public:
  Table();
  Table(std::initializer_list<TableEntry> entries);
  Table(const Table&);
  Table(Table&&) noexcept;
  Table& operator=(const Table&);
  Table& operator=(Table&&) noexcept;
  ~Table();

  bool empty() const { return entries_.empty(); }
  size_t size() const;
  bool contains(std::string_view key) const { return find(key) != nullptr; }
  /// nullptr when absent.
  const Value* find(std::string_view key) const;
  Value* find(std::string_view key);
  /// Appends NA if absent.
  Value& operator[](std::string_view key);
  /// The nested table under `key`, inserted if absent.
  Table& table(std::string_view key);
  /// Whether the key existed.
  bool erase(std::string_view key);
  std::vector<std::string> keys() const;

  auto begin() { return entries_.begin(); }
  auto end() { return entries_.end(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

  bool operator==(const Table& other) const;

 private:
  struct Index;

  /// Index of the key; size() if absent.
  size_t position(std::string_view key) const;
  void index_entries();

  std::vector<TableEntry> entries_;
  std::unique_ptr<Index> index_;  // only where there are too many to be searched one by one
};

/// A value of a configuration file, an attribute or metadata. NA is "NA" in TOML and null in JSON.
class Value {
 public:
  using Storage = std::variant<std::monostate, bool, int64_t, double, std::string, List, Table>;

  // Out of line, or each unit that copies a node would compile the variant's alternatives.
  Value();
  Value(bool value);
  Value(int value);
  Value(int64_t value);
  Value(double value);
  Value(const char* value);
  Value(std::string value);
  Value(List value);
  Value(Table value);
  /// A list of integers.
  Value(const std::vector<int64_t>& values);
  Value(const Value&);
  Value(Value&&) noexcept;
  Value& operator=(const Value&);
  Value& operator=(Value&&) noexcept;
  ~Value();

  bool is_na() const { return std::holds_alternative<std::monostate>(storage_); }
  template <class T>
  bool is() const {
    return std::holds_alternative<T>(storage_);
  }
  /// nullptr for other kinds.
  template <class T>
  const T* get_if() const {
    return std::get_if<T>(&storage_);
  }
  template <class T>
  T* get_if() {
    return std::get_if<T>(&storage_);
  }
  const Storage& storage() const { return storage_; }

  /// An integer or a float, as a float.
  const double* number(double& scratch) const;

  /// "a boolean", "an integer", ...: for messages.
  std::string_view kind_name() const;
  /// 1-based line in the file it came from, or 0.
  int line() const { return line_; }
  void set_line(int line) { line_ = line; }

  bool operator==(const Value& other) const;

 private:
  Storage storage_;
  int line_ = 0;
};

struct TableEntry {
  std::string key;
  Value value;
  bool operator==(const TableEntry&) const = default;
};

/// The shortest decimal that reads back as `value`, always with a point or an exponent ("2.0", "1e-08");
/// "inf",
/// "-inf", "nan" otherwise. TOML, Python and detent's reports write floats this way.
std::string float_text(double value);

/// As TOML would write it: `[1, 2]`, `"text"`, `NA`, `{a = 1}`.
std::string value_text(const Value& value);

}  // namespace detent

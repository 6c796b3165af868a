#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "detent/core/value.h"

namespace detent {

class TemplateValue;
using TemplateList = std::vector<TemplateValue>;
using TemplateTable = std::vector<std::pair<std::string, TemplateValue>>;

struct Undefined {
  std::string name;
};

/// A value of a template, with the meaning of Python's. Lists and tables are shared, as there.
class TemplateValue {
 public:
  using Storage = std::variant<Undefined, std::nullptr_t, bool, int64_t, double, std::string,
                               std::shared_ptr<TemplateList>, std::shared_ptr<TemplateTable>>;

  TemplateValue() = default;
  explicit TemplateValue(Storage storage) : storage_(std::move(storage)) {}
  static TemplateValue none() { return TemplateValue(Storage(nullptr)); }
  static TemplateValue of(bool value) { return TemplateValue(Storage(value)); }
  static TemplateValue of(int64_t value) { return TemplateValue(Storage(value)); }
  static TemplateValue of(double value) { return TemplateValue(Storage(value)); }
  static TemplateValue of(std::string value) { return TemplateValue(Storage(std::move(value))); }
  /// Throw Error where lists and tables lie too deep in one another.
  static TemplateValue of(TemplateList value);
  static TemplateValue of(TemplateTable value);
  static TemplateValue undefined(std::string name) {
    return TemplateValue(Storage(Undefined{std::move(name)}));
  }
  static TemplateValue from(const Value& value);

  bool is_undefined() const { return std::holds_alternative<Undefined>(storage_); }
  bool is_none() const { return std::holds_alternative<std::nullptr_t>(storage_); }
  const std::string* text() const { return std::get_if<std::string>(&storage_); }
  const int64_t* integer() const { return std::get_if<int64_t>(&storage_); }
  const bool* boolean() const { return std::get_if<bool>(&storage_); }
  const double* floating() const { return std::get_if<double>(&storage_); }
  TemplateList* list() const;
  TemplateTable* table() const;
  /// An integer, a truth value or a float, as a float.
  bool number(double& result) const;

  bool is_true() const;
  /// "str", "int", ...: for messages.
  std::string_view kind() const;

  bool operator==(const TemplateValue& other) const;

 private:
  Storage storage_;
  int depth_ = 0;  // of lists and tables in one another, when it was made
};

/// nullptr where it is absent.
TemplateValue* find_key(TemplateTable& table, std::string_view key);

/// The result of Python's str(); "" for an undefined value.
std::string to_text(const TemplateValue& value);
/// The result of json.dumps(ensure_ascii=False); `indent`: below 0, in one line.
std::string to_json(const TemplateValue& value, int64_t indent);
/// -1, 0 or 1; throws Error on kinds that have no order.
int compare(const TemplateValue& left, const TemplateValue& right);

/// Python's str.strip at the given ends; empty `characters`: white space.
std::string stripped(std::string_view text, std::string_view characters, bool left, bool right);
bool is_python_space(char32_t code);

}  // namespace detent

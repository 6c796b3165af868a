#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "detent/core/error.h"
#include "detent/core/value.h"

namespace detent {

/// The text of a JSON string, also of those that stand for infinities and NaN in the project's own files
/// (files/json.h): nullopt for what is no string.
std::optional<std::string> json_string(const Value& value);

/// An object of tokenizer.json; messages say where it stands.
class JsonObject {
 public:
  /// `name` is of the object itself: "tokenizer.json: normalizer".
  JsonObject(const Value& value, std::string name);

  const std::string& name() const { return name_; }
  const Table& table() const { return *table_; }
  std::string at(std::string_view key) const { return name_ + "." + std::string(key); }

  /// nullptr where it is absent or null.
  const Value* find(std::string_view key) const;
  const Value& value(std::string_view key) const;
  std::string text(std::string_view key) const;
  std::string text_or(std::string_view key, std::string_view otherwise) const;
  bool boolean(std::string_view key, std::optional<bool> otherwise = std::nullopt) const;
  int64_t integer(std::string_view key, std::optional<int64_t> otherwise = std::nullopt) const;
  const List& list(std::string_view key) const;
  JsonObject object(std::string_view key) const { return {value(key), at(key)}; }
  std::string type() const { return text("type"); }

 private:
  template <class T>
  const T& expect(std::string_view key, std::string_view kind) const;

  const Table* table_;
  std::string name_;
};

}  // namespace detent

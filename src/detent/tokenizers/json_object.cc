#include "detent/tokenizers/json_object.h"

#include <cmath>

namespace detent {
namespace {

bool spells_number(std::string_view text) { return text == "inf" || text == "-inf" || text == "nan"; }

}  // namespace

std::optional<std::string> json_string(const Value& value) {
  // A string "inf" has been read as a number, and one with a backslash before it has lost that.
  if (const auto* number = value.get_if<double>(); number != nullptr && !std::isfinite(*number))
    return std::isnan(*number) ? "nan" : *number > 0 ? "inf" : "-inf";
  const auto* text = value.get_if<std::string>();
  if (text == nullptr) return std::nullopt;
  const size_t rest = text->find_first_not_of('\\');
  if (rest != std::string::npos && spells_number(std::string_view(*text).substr(rest))) return "\\" + *text;
  return *text;
}

JsonObject::JsonObject(const Value& value, std::string name)
    : table_(value.get_if<Table>()), name_(std::move(name)) {
  if (table_ == nullptr) fail("{}: an object expected, not {}", name_, value.kind_name());
}

const Value* JsonObject::find(std::string_view key) const {
  const Value* value = table_->find(key);
  return value == nullptr || value->is_na() ? nullptr : value;
}

const Value& JsonObject::value(std::string_view key) const {
  const Value* found = find(key);
  if (found == nullptr) fail("{}: \"{}\" is missing", name_, key);
  return *found;
}

template <class T>
const T& JsonObject::expect(std::string_view key, std::string_view kind) const {
  const Value& found = value(key);
  const T* result = found.get_if<T>();
  if (result == nullptr) fail("{}: {} expected, not {}", at(key), kind, found.kind_name());
  return *result;
}

std::string JsonObject::text(std::string_view key) const {
  const Value& found = value(key);
  const auto result = json_string(found);
  if (!result) fail("{}: a text expected, not {}", at(key), found.kind_name());
  return *result;
}

std::string JsonObject::text_or(std::string_view key, std::string_view otherwise) const {
  return find(key) == nullptr ? std::string(otherwise) : text(key);
}

bool JsonObject::boolean(std::string_view key, std::optional<bool> otherwise) const {
  if (otherwise && find(key) == nullptr) return *otherwise;
  return expect<bool>(key, "true or false");
}

int64_t JsonObject::integer(std::string_view key, std::optional<int64_t> otherwise) const {
  if (otherwise && find(key) == nullptr) return *otherwise;
  return expect<int64_t>(key, "an integer");
}

const List& JsonObject::list(std::string_view key) const { return expect<List>(key, "a list"); }

}  // namespace detent

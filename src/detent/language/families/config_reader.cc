#include "detent/language/families/config_reader.h"

#include <algorithm>
#include <cmath>

#include "detent/core/error.h"

namespace detent {

const Value* ConfigReader::find(std::string_view key) const {
  const Value* value = table_.find(key);
  return value == nullptr || value->is_na() ? nullptr : value;
}

const Value& ConfigReader::get(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) fail("{}: there is no key \"{}\"", where_, key);
  return *value;
}

void ConfigReader::fail_kind(std::string_view key, const Value& value, std::string_view expected) const {
  fail("{}: \"{}\" is {} ({}), expected {}", where_, key, value_text(value), value.kind_name(), expected);
}

void ConfigReader::refuse(std::string_view key, std::string_view reason) const {
  fail("{}: \"{}\" is {}: {}", where_, key, value_text(get(key)), reason);
}

int64_t ConfigReader::integer(std::string_view key) const {
  const Value& value = get(key);
  const auto* integer = value.get_if<int64_t>();
  if (integer == nullptr) fail_kind(key, value, "an integer");
  return *integer;
}

int64_t ConfigReader::integer(std::string_view key, int64_t otherwise) const {
  return has(key) ? integer(key) : otherwise;
}

double ConfigReader::number(std::string_view key) const {
  const Value& value = get(key);
  double scratch = 0;
  const double* number = value.number(scratch);
  if (number == nullptr || !std::isfinite(*number)) fail_kind(key, value, "a finite number");
  return *number;
}

double ConfigReader::number(std::string_view key, double otherwise) const {
  return has(key) ? number(key) : otherwise;
}

std::optional<double> ConfigReader::optional_number(std::string_view key) const {
  return has(key) ? std::optional(number(key)) : std::nullopt;
}

bool ConfigReader::boolean(std::string_view key, bool otherwise) const {
  const Value* value = find(key);
  if (value == nullptr) return otherwise;
  const auto* boolean = value->get_if<bool>();
  if (boolean == nullptr) fail_kind(key, *value, "true or false");
  return *boolean;
}

std::string ConfigReader::text(std::string_view key, const std::string& otherwise) const {
  const Value* value = find(key);
  if (value == nullptr) return otherwise;
  const auto* text = value->get_if<std::string>();
  if (text == nullptr) fail_kind(key, *value, "a text");
  return *text;
}

std::vector<std::string> ConfigReader::texts(std::string_view key) const {
  const Value& value = get(key);
  const auto* list = value.get_if<List>();
  if (list == nullptr) fail_kind(key, value, "a list of texts");
  std::vector<std::string> texts;
  for (const Value& entry : *list) {
    const auto* text = entry.get_if<std::string>();
    if (text == nullptr) fail_kind(key, value, "a list of texts");
    texts.push_back(*text);
  }
  return texts;
}

std::vector<double> ConfigReader::numbers(std::string_view key) const {
  const Value& value = get(key);
  const auto* list = value.get_if<List>();
  if (list == nullptr) fail_kind(key, value, "a list of numbers");
  std::vector<double> numbers;
  for (const Value& entry : *list) {
    double scratch = 0;
    const double* number = entry.number(scratch);
    if (number == nullptr) fail_kind(key, value, "a list of numbers");
    numbers.push_back(*number);
  }
  return numbers;
}

std::vector<int64_t> ConfigReader::integers(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return {};
  if (const auto* one = value->get_if<int64_t>()) return {*one};
  const auto* list = value->get_if<List>();
  if (list == nullptr) fail_kind(key, *value, "an integer or a list of them");
  std::vector<int64_t> integers;
  for (const Value& entry : *list) {
    const auto* integer = entry.get_if<int64_t>();
    if (integer == nullptr) fail_kind(key, *value, "an integer or a list of them");
    integers.push_back(*integer);
  }
  return integers;
}

std::optional<ConfigReader> ConfigReader::table(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const auto* table = value->get_if<Table>();
  if (table == nullptr) fail_kind(key, *value, "a table");
  return ConfigReader(*table, fmt::format("{}: {}", where_, key));
}

Table ConfigReader::completed(Table defaults) const {
  for (const auto& [key, value] : table_) {
    if (!value.is_na()) defaults[key] = value;
  }
  return defaults;
}

Activation ConfigReader::activation(std::string_view key, const std::string& otherwise) const {
  static const std::vector<std::pair<std::string, Activation>> kKnown = {
      {"relu", Activation::kRelu},          {"relu2", Activation::kSquaredRelu},
      {"gelu", Activation::kGelu},          {"gelu_python", Activation::kGelu},
      {"gelu_new", Activation::kGeluTanh},  {"gelu_pytorch_tanh", Activation::kGeluTanh},
      {"gelu_fast", Activation::kGeluTanh}, {"silu", Activation::kSilu},
      {"swish", Activation::kSilu},         {"xielu", Activation::kXielu},
      {"tanh", Activation::kTanh}};
  const std::string name = text(key, otherwise);
  std::vector<std::string> names;
  for (const auto& [known, activation] : kKnown) {
    if (known == name) return activation;
    names.push_back(known);
  }
  fail("{}: \"{}\": {}", where_, key, unknown_name_message("activation", name, names));
}

void ConfigReader::expect(std::string_view key, const Value& value) const {
  const Value* given = find(key);
  if (given != nullptr && !(*given == value))
    refuse(key, fmt::format("networks with other than {} are not supported", value_text(value)));
}

}  // namespace detent

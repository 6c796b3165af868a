#include "detent/checkpoints/gguf/gguf_metadata.h"

#include <array>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#include "detent/core/error.h"

namespace detent {
namespace {

constexpr std::array<std::string_view, 13> kTypeNames = {"uint8",  "int8",    "uint16", "int16",  "uint32",
                                                         "int32",  "float32", "bool",   "string", "array",
                                                         "uint64", "int64",   "float64"};

/// visit(T()) with the type of the elements of an array of numbers; not of strings and arrays.
template <class Visit>
bool visit_gguf_numbers(GgufType type, const Visit& visit) {
  switch (type) {
    case GgufType::kUInt8:
    case GgufType::kBool:
      return visit(uint8_t()), true;
    case GgufType::kInt8:
      return visit(int8_t()), true;
    case GgufType::kUInt16:
      return visit(uint16_t()), true;
    case GgufType::kInt16:
      return visit(int16_t()), true;
    case GgufType::kUInt32:
      return visit(uint32_t()), true;
    case GgufType::kInt32:
      return visit(int32_t()), true;
    case GgufType::kUInt64:
      return visit(uint64_t()), true;
    case GgufType::kInt64:
      return visit(int64_t()), true;
    case GgufType::kFloat32:
      return visit(float()), true;
    case GgufType::kFloat64:
      return visit(double()), true;
    default:
      return false;
  }
}

template <class T>
T element_at(const GgufArray& array, size_t i) {
  T value;
  std::memcpy(&value, array.bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

/// The first `count` strings of an array of them.
std::vector<std::string_view> first_texts(const GgufArray& array, size_t count) {
  std::vector<std::string_view> texts(count);
  const auto* at = reinterpret_cast<const char*>(array.bytes.data());
  for (std::string_view& text : texts) {
    uint64_t length = 0;
    std::memcpy(&length, at, sizeof(length));
    text = {at + sizeof(length), length};
    at += sizeof(length) + length;
  }
  return texts;
}

Value number_value(double number) { return number; }
Value number_value(int64_t number) { return number; }
Value number_value(uint64_t number) {
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (number > kMost) return std::to_string(number);
  return static_cast<int64_t>(number);
}

/// The double that the shortest decimals of a float32 stand for: 1e-05, not 9.999999747378752e-06.
double shortest_double(double value) { return std::stod(fmt::format("{}", static_cast<float>(value))); }

List first_elements(const GgufArray& array, size_t count) {
  List list;
  if (array.type == GgufType::kString) {
    for (const std::string_view text : first_texts(array, count)) list.emplace_back(std::string(text));
  }
  visit_gguf_numbers(array.type, [&](auto zero) {
    using T = decltype(zero);
    using Wide = std::conditional_t<std::is_floating_point_v<T>, double,
                                    std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>;
    for (size_t i = 0; i < count; ++i)
      list.push_back(number_value(static_cast<Wide>(element_at<T>(array, i))));
  });
  return list;
}

}  // namespace

std::string_view gguf_type_name(GgufType type) { return kTypeNames.at(static_cast<size_t>(type)); }

GgufMetadata::GgufMetadata(std::string file, std::vector<GgufEntry> entries)
    : file_(std::move(file)), entries_(std::move(entries)) {
  index_.reserve(entries_.size());
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (!index_.emplace(entries_[i].key, i).second)
      fail("{}: key \"{}\" occurs twice", file_, entries_[i].key);
  }
}

const GgufEntry* GgufMetadata::find(std::string_view key) const {
  const auto found = index_.find(key);
  return found == index_.end() ? nullptr : &entries_[found->second];
}

const GgufEntry& GgufMetadata::at(std::string_view key, std::string_view expected) const {
  const GgufEntry* entry = find(key);
  if (entry == nullptr) fail("{}: the metadata lack {}, expected {}", file_, key, expected);
  return *entry;
}

void GgufMetadata::refuse(const GgufEntry& entry, std::string_view expected) const {
  const auto* array = std::get_if<GgufArray>(&entry.value);
  const std::string found =
      array != nullptr ? fmt::format("an array of {} {}", array->count, gguf_type_name(array->type))
                       : fmt::format("{} ({})", value_text(gguf_value(entry, 0)), gguf_type_name(entry.type));
  fail("{}: {} is {}, expected {}", file_, entry.key, found, expected);
}

int64_t GgufMetadata::integer(std::string_view key) const {
  constexpr std::string_view kExpected = "an integer";
  const GgufEntry& entry = at(key, kExpected);
  if (const auto* signed_value = std::get_if<int64_t>(&entry.value)) return *signed_value;
  const auto* value = std::get_if<uint64_t>(&entry.value);
  if (value == nullptr || *value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    refuse(entry, kExpected);
  }
  return static_cast<int64_t>(*value);
}

int64_t GgufMetadata::integer(std::string_view key, int64_t absent) const {
  return contains(key) ? integer(key) : absent;
}

double GgufMetadata::number(std::string_view key) const {
  const GgufEntry& entry = at(key, "a number");
  if (const auto* value = std::get_if<double>(&entry.value)) return *value;
  if (const auto* value = std::get_if<int64_t>(&entry.value)) return static_cast<double>(*value);
  if (const auto* value = std::get_if<uint64_t>(&entry.value)) return static_cast<double>(*value);
  refuse(entry, "a number");
}

double GgufMetadata::number(std::string_view key, double absent) const {
  return contains(key) ? number(key) : absent;
}

bool GgufMetadata::flag(std::string_view key, bool absent) const {
  const GgufEntry* entry = find(key);
  if (entry == nullptr) return absent;
  if (const auto* value = std::get_if<bool>(&entry->value)) return *value;
  refuse(*entry, "true or false");
}

std::string_view GgufMetadata::text(std::string_view key) const {
  const GgufEntry& entry = at(key, "a string");
  if (const auto* value = std::get_if<std::string_view>(&entry.value)) return *value;
  refuse(entry, "a string");
}

std::string_view GgufMetadata::text(std::string_view key, std::string_view absent) const {
  return contains(key) ? text(key) : absent;
}

const GgufArray& GgufMetadata::array(std::string_view key, std::string_view expected) const {
  const GgufEntry& entry = at(key, expected);
  if (const auto* value = std::get_if<GgufArray>(&entry.value)) return *value;
  refuse(entry, expected);
}

std::vector<std::string_view> GgufMetadata::texts(std::string_view key) const {
  constexpr std::string_view kExpected = "an array of strings";
  const GgufArray& strings = array(key, kExpected);
  if (strings.type != GgufType::kString) refuse(at(key, kExpected), kExpected);
  return first_texts(strings, strings.count);
}

std::vector<double> GgufMetadata::numbers(std::string_view key) const {
  constexpr std::string_view kExpected = "an array of numbers";
  const GgufArray& elements = array(key, kExpected);
  std::vector<double> result(visit_gguf_numbers(elements.type, [](auto) {}) ? elements.count : 0);
  const bool are_numbers = visit_gguf_numbers(elements.type, [&](auto zero) {
    for (size_t i = 0; i < result.size(); ++i) {
      result[i] = static_cast<double>(element_at<decltype(zero)>(elements, i));
    }
  });
  if (!are_numbers) refuse(at(key, kExpected), kExpected);
  return result;
}

std::vector<int64_t> GgufMetadata::integers(std::string_view key) const {
  constexpr std::string_view kExpected = "an array of integers";
  const GgufArray& elements = array(key, kExpected);
  std::vector<int64_t> result;
  bool are_integers = false;
  visit_gguf_numbers(elements.type, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_floating_point_v<T>) {
      are_integers = true;
      result.resize(elements.count);
      for (size_t i = 0; i < result.size(); ++i) result[i] = static_cast<int64_t>(element_at<T>(elements, i));
    }
  });
  if (!are_integers) refuse(at(key, kExpected), kExpected);
  return result;
}

bool has_gguf_tokenizer(const GgufMetadata& metadata) {
  return metadata.contains("tokenizer.ggml.model") && metadata.contains("tokenizer.ggml.tokens");
}

Value gguf_value(const GgufEntry& entry, size_t most) {
  if (const auto* text = std::get_if<std::string_view>(&entry.value)) return std::string(*text);
  if (const auto* flag = std::get_if<bool>(&entry.value)) return *flag;
  if (const auto* number = std::get_if<double>(&entry.value)) {
    return entry.type == GgufType::kFloat32 ? shortest_double(*number) : *number;
  }
  if (const auto* number = std::get_if<int64_t>(&entry.value)) return *number;
  if (const auto* number = std::get_if<uint64_t>(&entry.value)) return number_value(*number);
  const auto& array = std::get<GgufArray>(entry.value);
  if (array.count <= most && array.type != GgufType::kArray) return first_elements(array, array.count);
  return fmt::format("{} {}", array.count, gguf_type_name(array.type));
}

}  // namespace detent

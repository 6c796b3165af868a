#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "detent/core/value.h"

namespace detent {

/// Numbers of the types as files have them.
enum class GgufType : uint32_t {
  kUInt8,
  kInt8,
  kUInt16,
  kInt16,
  kUInt32,
  kInt32,
  kFloat32,
  kBool,
  kString,
  kArray,
  kUInt64,
  kInt64,
  kFloat64,
};

/// "uint8", ..., "string", "array".
std::string_view gguf_type_name(GgufType type);

/// Views the elements in the file, which the reader has checked: numbers one after the other, strings each
/// after its length in 8 bytes, arrays each after type and length.
struct GgufArray {
  GgufType type = GgufType::kUInt8;  // of the elements
  uint64_t count = 0;
  std::span<const std::byte> bytes = {};
};

struct GgufEntry {
  std::string_view key;
  GgufType type = GgufType::kUInt8;
  std::variant<uint64_t, int64_t, double, bool, std::string_view, GgufArray> value = uint64_t{0};
};

/// The keys and values of a GGUF file, which they view: whoever keeps them keeps its mapping. The functions
/// that read a value throw Error naming file, key, what is there and what was expected.
class GgufMetadata {
 public:
  /// `file` begins the messages.
  GgufMetadata(std::string file, std::vector<GgufEntry> entries);

  const std::vector<GgufEntry>& entries() const { return entries_; }
  const std::string& file() const { return file_; }
  /// nullptr when absent.
  const GgufEntry* find(std::string_view key) const;
  bool contains(std::string_view key) const { return find(key) != nullptr; }

  /// Any integer type, also a float without fraction is refused.
  int64_t integer(std::string_view key) const;
  int64_t integer(std::string_view key, int64_t absent) const;
  /// Any number.
  double number(std::string_view key) const;
  double number(std::string_view key, double absent) const;
  bool flag(std::string_view key, bool absent) const;
  std::string_view text(std::string_view key) const;
  std::string_view text(std::string_view key, std::string_view absent) const;

  /// An array of strings, which view the file.
  std::vector<std::string_view> texts(std::string_view key) const;
  /// An array of numbers of any type.
  std::vector<double> numbers(std::string_view key) const;
  /// An array of integers of any type; of booleans too.
  std::vector<int64_t> integers(std::string_view key) const;

 private:
  const GgufEntry& at(std::string_view key, std::string_view expected) const;
  const GgufArray& array(std::string_view key, std::string_view expected) const;
  [[noreturn]] void refuse(const GgufEntry& entry, std::string_view expected) const;

  std::string file_;
  std::vector<GgufEntry> entries_;
  std::unordered_map<std::string_view, size_t> index_;
};

/// Whether there is a vocabulary.
bool has_gguf_tokenizer(const GgufMetadata& metadata);

/// As reports show it; of arrays at most the first `most` elements, and how many there are.
Value gguf_value(const GgufEntry& entry, size_t most);

}  // namespace detent

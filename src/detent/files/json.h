#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "detent/core/tensor.h"
#include "detent/core/value.h"

namespace detent {

enum class JsonLayout : uint8_t {
  kIndented,  // two spaces a level; a list or table without lists and tables in it on one line
  kOneLine,
};

/// Bytes that are no UTF-8, as names of files may have: U+FFFD in their place, for people and programs that
/// read results; or an Error, where what is written is read back.
enum class InvalidText : uint8_t { kIsReplaced, kIsRefused };

/// `text` with U+FFFD for invalid UTF-8.
std::string valid_utf8(const std::string& text);

/// A value as JSON: NA is null, keys keep their order, integers have neither point nor exponent and floats
/// always have one, so that `parse_json(json_text(v)) == v`. JSON has no infinities and NaN: they are written
/// as the strings "inf", "-inf" and "nan", and these strings read as floats; text that is one of them gets a
/// backslash before it ("\\inf" in the file), as does text that has such backslashes already.
std::string json_text(const Value& value, JsonLayout layout = JsonLayout::kIndented,
                      InvalidText invalid = InvalidText::kIsReplaced);

/// Throws Error "name:line:column: ..." on a syntax error, and Error beginning with `name` on a key that
/// occurs twice in an object, an integer outside int64 and nesting deeper than 128. Values do not know their
/// line.
Value parse_json(std::string_view text, const std::string& name);

/// `parse_json` of a file of at most 256 MiB.
Value read_json(const std::filesystem::path& path);

void write_json(const std::filesystem::path& path, const Value& value,
                JsonLayout layout = JsonLayout::kIndented);

/// A list of numbers, or of such lists of equal shape, as a tensor: int64 where all numbers are integers,
/// float32 where all are floats of that precision, else float64. nullopt for any other value (numbers of both
/// kinds among them) and for fewer than `least` numbers. Equal to the list in every bit but those of NaN.
std::optional<Tensor> tensor_of_list(const Value& list, size_t least);

/// The inverse. Throws Error on another dtype and on a tensor without dimensions.
Value list_of_tensor(const Tensor& tensor);

}  // namespace detent

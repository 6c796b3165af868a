#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "detent/core/value.h"

namespace detent {

enum class JsonLayout : uint8_t {
  kIndented,  // two spaces a level; a list or table without lists and tables in it on one line
  kOneLine,
};

/// A value as JSON: NA is null, keys keep their order, integers have neither point nor exponent and floats
/// always have one, so that `parse_json(json_text(v)) == v`. JSON has no infinities and NaN: they are written
/// as the strings "inf", "-inf" and "nan", and these strings read as floats; text that is one of them gets a
/// backslash before it ("\\inf" in the file), as does text that has such backslashes already. Throws Error on
/// text that is not UTF-8.
std::string json_text(const Value& value, JsonLayout layout = JsonLayout::kIndented);

/// Throws Error "name:line:column: ..." on a syntax error, and Error beginning with `name` on a key that
/// occurs twice in an object, an integer outside int64 and nesting deeper than 128. Values do not know their
/// line.
Value parse_json(std::string_view text, const std::string& name);

/// `parse_json` of a file of at most 256 MiB.
Value read_json(const std::filesystem::path& path);

void write_json(const std::filesystem::path& path, const Value& value,
                JsonLayout layout = JsonLayout::kIndented);

}  // namespace detent

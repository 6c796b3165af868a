#pragma once

#include <string>
#include <string_view>

#include "detent/core/value.h"

namespace detent {

/// One-line text form "name:key=value,key=value" of formats and specs. A value is NA, true, false, an
/// integer, a float, a list of numbers "1x16", or else a string.
struct TextForm {
  std::string name;
  Table keys;
};

/// Throws Error (beginning with `where`) on an empty name, a part without "=", an empty key or value, and on
/// a key that occurs twice.
TextForm parse_text_form(std::string_view text, const std::string& where);

/// The inverse; only "name" without keys. Floats are written as the shortest float32 that reads back.
std::string text_form(std::string_view name, const Table& keys);

}  // namespace detent

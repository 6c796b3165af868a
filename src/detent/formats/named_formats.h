#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

/// A name for a format with some keys:
///
///     int8       affine of 8 bits, symmetric unless said otherwise; int2 to int16
///     uint8      affine of 8 bits, unsigned; uint2 to uint16
///     int4_g128  int4 with a scale for each 128 elements of a channel: of a row of weights [out, in]; any of
///                the names above with any size
///     mx_e4m3    mx with that element, likewise the others
///     codebook16 a codebook of so many values at equal distances
struct NamedFormat {
  std::string name;
  std::string format;
  Table keys;      // of format and QuantSpec: what the name says, so that no other values may be given
  Table defaults;  // what it means unless said otherwise

  /// All keys, including those `given` beside the name. Throws Error, beginning with `where`, on a value that
  /// contradicts the name.
  Table with(const Table& given, const std::string& where) const;
};

/// nullopt for other names. Throws Error, beginning with `where`, on invalid widths and sizes.
std::optional<NamedFormat> find_named_format(std::string_view name, const std::string& where);

/// The names that lists and suggestions show, with help.
struct NamedFormatHelp {
  const char* name;
  const char* help;
};
const std::vector<NamedFormatHelp>& usual_named_formats();

/// The text form of a format under another program's name ("mxfp4", "bfloat16", "Q4_0", "ap_fixed<8,4>"), any
/// case and hyphens; "" if unknown. Such names are suggested, never accepted, as some mean a whole scheme.
std::string format_called(std::string_view name);

}  // namespace detent

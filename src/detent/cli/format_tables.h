#pragma once

#include <string>
#include <vector>

#include "detent/core/text_table.h"
#include "detent/formats/format.h"

namespace detent {

/// What lists show of a format or of a name for one with certain keys.
struct FormatDescription {
  std::string name;
  std::vector<std::string> aliases;
  double bits;                    // by default
  std::vector<std::string> keys;  // that may be given
  std::string help;
};
std::vector<FormatDescription> describe_formats();

/// All formats: name, aliases, bits by default, keys, what it is. docs/formats.md holds this table.
TextTable formats_table();

/// The fields of one: key, type, default, value, allowed range, help.
TextTable format_fields_table(const Format& format);

}  // namespace detent

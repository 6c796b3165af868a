#pragma once

#include "detent/core/text_table.h"
#include "detent/formats/format.h"

namespace detent {

/// All formats: name, aliases, bits by default, keys, what it is. docs/formats.md holds this table.
TextTable formats_table();

/// The fields of one: key, type, default, value, allowed range, help.
TextTable format_fields_table(const Format& format);

}  // namespace detent

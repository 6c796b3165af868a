#pragma once

#include <string>

#include "detent/core/fields.h"

namespace detent {

/// ", at least 1" or ", 0 to 4"; empty where anything is allowed.
std::string bounds_text(const Between& allowed);

/// What the field is for, with its type, range and default: "samples a batch (integer, at least 1; default
/// 128)".
std::string field_meaning(const FieldDescription& field);

/// The same for a flag: the default without the quotes that a file has.
std::string flag_meaning(FieldDescription field);

}  // namespace detent

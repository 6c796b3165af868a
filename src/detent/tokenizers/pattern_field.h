#pragma once

#include <memory>

#include "detent/tokenizers/json_object.h"
#include "detent/tokenizers/pattern.h"

namespace detent {

/// The field "pattern" of an object: {"String": ...} or {"Regex": ...}.
std::shared_ptr<const Pattern> pattern_field(const JsonObject& object);

/// A field of one character.
char32_t character_field(const JsonObject& object, std::string_view key);

}  // namespace detent

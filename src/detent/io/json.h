#pragma once

#include <string>
#include <string_view>

#include "detent/core/value.h"

namespace detent {

/// Parses one JSON document. Keys keep their order, null is NA, a number without point and exponent is an
/// integer. Throws Error "name: ..." on a syntax error, a duplicate key, an integer outside int64, a number
/// beyond float64 and on nesting deeper than 128.
Value parse_json(std::string_view text, const std::string& name);

/// `parse_json(json_text(v))` is v, but for numbers that JSON lacks: NaN and infinities become the strings
/// "nan", "inf" and "-inf". Strings are taken to be UTF-8; broken bytes are replaced. With `indent` >= 0
/// every element stands on a line of its own, indented by that many spaces a level.
std::string json_text(const Value& value, int indent = -1);

}  // namespace detent

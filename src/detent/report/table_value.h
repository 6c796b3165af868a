#pragma once

#include <string>
#include <string_view>

#include "detent/core/text_table.h"
#include "detent/core/value.h"

namespace detent {

/// "SQNR weight" -> "sqnr_weight", "saturated %" -> "saturated_percent": a column's heading as a key.
std::string key_of_heading(std::string_view heading);

/// The rows as tables with the headings as keys: a cell that is a number becomes one, an empty one NA, others
/// stay text.
List table_value(const TextTable& table);

}  // namespace detent

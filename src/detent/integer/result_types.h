#pragma once

#include <map>
#include <string>

#include "detent/graph/graph.h"
#include "detent/integer/code_type.h"

namespace detent {

/// The types of the codes that nodes give, by value_name: of those that say so, and those that only move or
/// compare codes of one type. Others give float values.
std::map<std::string, CodeType> result_types(const Graph& graph);

}  // namespace detent

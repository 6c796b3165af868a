#pragma once

#include <functional>
#include <string>

#include "detent/core/value.h"

namespace detent {

/// `search` with MASE's sections, where it has them, said in the fields of SearchOptions:
///
///     [search.search_space.setup]         by = "name" or "type"
///     [search.search_space.seed.X.config] X: default, a node or an operator; a list of values for each key
///     [search.strategy]                   name, and setup, metrics, sw_runner, hw_runner
///
/// The lists of an operand's keys become formats: name = ["integer"], weight_width = [4, 8] are fixed:width=4
/// and fixed:width=8. What has no meaning here is said to `warn`; what would be another search throws Error,
/// beginning with `where`.
Table without_mase_sections(const Table& search, const std::string& where,
                            const std::function<void(const std::string&)>& warn);

}  // namespace detent

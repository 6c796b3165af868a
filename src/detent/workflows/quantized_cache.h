#pragma once

#include <optional>
#include <string>

#include "detent/core/value.h"
#include "detent/formats/format.h"
#include "detent/graph/graph.h"

namespace detent {

/// The format that a `cache_format` option names; nothing for "". Throws Error beginning with `where`.
std::optional<Format> cache_format_of(const std::string& text, const std::string& where);

/// Leaves the products with keys and values that a decoder keeps to float, in the options of static_quantize
/// among `passes`: quantize_cache (language/cache_format.h) rounds what they read instead. Throws Error
/// beginning with `where` on a network that keeps none.
void leave_cache_to_float(Table& passes, const Graph& network, const std::string& where);

}  // namespace detent

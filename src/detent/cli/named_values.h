#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "detent/graph/tensor_type.h"

namespace detent {

/// The two parts of "NAME=value"; the name may hold "=" where the value does not. `value` is what an error
/// says there should be. Throws UsageError naming the option.
std::pair<std::string, std::string> named_value(std::string_view option, std::string_view value,
                                                const std::string& text);

/// What the option --shape says: "NAME=1,3,224,224" each. Throws UsageError where it says something else.
InputShapes named_shapes(std::span<const std::string> texts);
/// The same of one text with ";" between shapes; "" lists none.
InputShapes listed_shapes(const std::string& text);

}  // namespace detent

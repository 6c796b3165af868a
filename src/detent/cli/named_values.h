#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "detent/core/tensor.h"

namespace detent {

/// The two parts of "NAME=value"; the name may hold "=" where the value does not. `value` is what an error
/// says there should be. Throws UsageError naming the option.
std::pair<std::string, std::string> named_value(std::string_view option, std::string_view value,
                                                const std::string& text);

/// What the option --shape says: "NAME=1,3,224,224" each. Throws UsageError where it says something else.
std::map<std::string, Shape, std::less<>> named_shapes(std::span<const std::string> texts);

}  // namespace detent

#pragma once

#include <string_view>

namespace detent {

/// What to export or save differently so that a model does without an operator that is not supported; ""
/// where nothing is known.
std::string_view export_advice(std::string_view domain, std::string_view op);

}  // namespace detent

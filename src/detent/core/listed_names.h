#pragma once

#include <span>
#include <string>
#include <string_view>

namespace detent {

/// "a, b, c"; of more than two dozen the few that are nearest to `near` ("": the first), "and 171 others".
std::string listed_names(std::span<const std::string> names, std::string_view near = "");

}  // namespace detent

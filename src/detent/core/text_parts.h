#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace detent {

/// The parts of `text` between separators, one more than there are of these: they may be empty.
std::vector<std::string> text_parts(std::string_view text, char separator);

}  // namespace detent

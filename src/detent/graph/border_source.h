#pragma once

#include <cstdint>
#include <string_view>

namespace detent {

/// Which position of a dimension of `size` stands at `position` where the dimension has a border of that mode
/// of `dynamic_pad`: itself where it lies inside, -1 for the border's value. Throws Error where a mode has
/// nothing to repeat.
int64_t border_source(int64_t position, int64_t size, std::string_view mode);

}  // namespace detent

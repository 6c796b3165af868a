#pragma once

#include <string_view>

namespace detent {

/// Writes to standard output, at once and escaped as `printable` does. Throws Error when that fails; a reader
/// that has gone away is no failure.
void print(std::string_view text);

}  // namespace detent

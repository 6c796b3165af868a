#pragma once

#include <filesystem>
#include <string>

namespace detent {

/// Whether a file could be written as `path`, asked long before it is: its folder, or the nearest one above
/// that exists, is a folder and may be written to, and `path` itself is no folder. Creates nothing. Throws
/// Error, beginning with `where`.
void check_writable(const std::filesystem::path& path, const std::string& where);

}  // namespace detent

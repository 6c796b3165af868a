#pragma once

#include <filesystem>

namespace detent {

/// Writes the names in a folder to the disk, so that a rename in it survives a loss of power. Some file
/// systems have nothing to flush, and a folder that may be written but not read cannot be opened: then
/// nothing happens. Throws Error naming the folder.
void flush_folder(const std::filesystem::path& folder);

}  // namespace detent

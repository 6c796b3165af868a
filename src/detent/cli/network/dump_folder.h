#pragma once

#include <filesystem>
#include <string>

namespace detent {

inline constexpr const char* kDumpIndex = "index.json";

/// Throws Error where the folder is none that a dump may be written to: it must be new, empty, or, with
/// `overwrite`, hold an earlier dump.
void check_dump_folder(const std::filesystem::path& folder, bool overwrite);

}  // namespace detent

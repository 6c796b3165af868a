#pragma once

#include <filesystem>
#include <string>

namespace detent {

inline constexpr const char* kDumpIndex = "index.json";

/// Makes room for a dump: of an earlier one that the folder holds, its index and the files that it names are
/// removed with `overwrite`, else it is an error. So is a folder with anything else in it.
void claim_dump_folder(const std::filesystem::path& folder, bool overwrite);

}  // namespace detent

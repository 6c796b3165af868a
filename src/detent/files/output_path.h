#pragma once

#include <filesystem>
#include <string>

namespace detent {

/// Whether a file could be written as `path`, asked long before it is: `path` is a regular file or none, and
/// its folder, or the nearest one above that exists, takes new files. Leaves nothing there. Throws Error,
/// beginning with `where`.
void check_writable(const std::filesystem::path& path, const std::string& where);

/// What becomes of the folder of a file where there is none.
enum class MissingFolder { kIsRefused, kIsCreated };

/// Takes `path`, which the option `where` names, for a file that this process will write. Throws Error where
/// it could not be written, where it exists and may not be overwritten, and where it is a file that this
/// process reads (FileRoles), be that by another path or link.
void claim_output(const std::filesystem::path& path, const std::string& where, bool overwrite,
                  MissingFolder missing = MissingFolder::kIsRefused);

/// The folder above `folder` that would have to be created as well; empty where it is there.
std::filesystem::path missing_parent(const std::filesystem::path& folder);

}  // namespace detent

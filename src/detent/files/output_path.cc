#include "detent/files/file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "detent/core/error.h"
#include "detent/files/file_roles.h"
#include "detent/files/unfinished_file.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

/// Permissions do not tell it all: some file systems take no new files from anyone.
bool takes_new_files(const fs::path& folder) {
  if (::access(folder.c_str(), W_OK | X_OK) != 0) return false;
  const int descriptor = create_nameless_file(folder);
  if (descriptor >= 0) close(descriptor);
  return descriptor >= 0;
}

}  // namespace

void check_writable(const fs::path& path, const std::string& where) {
  if (!path.has_filename()) fail("{}: got \"{}\", expected the name of a file", where, path.string());
  std::error_code ignored;  // output_file says what there is
  if (fs::is_directory(path, ignored)) fail("{}: {} is a folder, expected a file", where, path.string());
  fs::path folder = fs::absolute(path).parent_path();
  while (!fs::exists(folder, ignored) && folder.has_relative_path()) folder = folder.parent_path();
  if (!fs::is_directory(folder)) {
    fail("{}: cannot write {}: {} is no folder", where, path.string(), folder.string());
  }
  if (!takes_new_files(folder)) {
    fail("{}: cannot write {}: {}: {}", where, path.string(), folder.string(), std::strerror(errno));
  }
  try {
    output_file(path);
  } catch (const Error& error) {
    fail("{}: {}", where, error.what());
  }
}

void claim_output(const fs::path& path, const std::string& where, bool overwrite, MissingFolder missing) {
  check_writable(path, where);
  const fs::path target = output_file(path);
  const fs::path folder = target.parent_path();
  if (missing == MissingFolder::kIsRefused && !folder.empty() && !fs::exists(folder))
    fail("{}: cannot write {}: the folder {} does not exist", where, path.string(), folder.string());
  FileRoles* roles = FileRoles::current();
  const bool is_input = roles != nullptr && roles->is_read(target);
  if (fs::exists(target) && !overwrite && !is_input)
    fail("{}: {} exists: give another name, or replace it with --overwrite", where, path.string());
  if (roles != nullptr) roles->note_output(target, where, overwrite);
}

fs::path missing_parent(const fs::path& folder) {
  const fs::path parent = fs::absolute(folder / "").parent_path().parent_path();
  return fs::exists(parent) ? fs::path() : parent;
}

}  // namespace detent

#include "detent/io/output_path.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "detent/core/error.h"

namespace detent {

namespace fs = std::filesystem;

void check_writable(const fs::path& path, const std::string& where) {
  if (!path.has_filename()) fail("{}: got \"{}\", expected the name of a file", where, path.string());
  if (fs::is_directory(path)) fail("{}: {} is a folder, expected a file", where, path.string());
  fs::path folder = fs::absolute(path).parent_path();
  std::error_code ignored;
  while (!fs::exists(folder, ignored) && folder.has_relative_path()) folder = folder.parent_path();
  if (!fs::is_directory(folder)) {
    fail("{}: cannot write {}: {} is no folder", where, path.string(), folder.string());
  }
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    fail("{}: cannot write {}: {}: {}", where, path.string(), folder.string(), std::strerror(errno));
  }
}

}  // namespace detent

#include "detent/datasets/data_files.h"

#include <fmt/ranges.h>

#include <cstdlib>
#include <optional>

#include "detent/core/error.h"
#include "detent/core/log.h"

namespace detent {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> search_roots(const DatasetOptions& options) {
  std::vector<fs::path> roots;
  if (!options.data_dir.empty()) roots.push_back(options.data_dir);
  const char* data = std::getenv("DETENT_DATA");
  if (data != nullptr && *data != '\0') roots.emplace_back(data);
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home != '\0') roots.push_back(fs::path(home) / ".cache" / "detent");
  return roots;
}

std::optional<fs::path> find_file(const fs::path& directory, const std::string& name, bool may_be_gzip) {
  std::vector<std::string> candidates = {name};
  if (may_be_gzip) candidates.push_back(name + ".gz");
  for (const std::string& candidate : candidates) {
    std::error_code ignored;  // an unreadable directory has no file for us
    if (fs::is_regular_file(directory / candidate, ignored)) return directory / candidate;
  }
  return std::nullopt;
}

}  // namespace

std::vector<fs::path> find_data_files(const DataFiles& files, const DatasetOptions& options) {
  std::string tried;
  for (const fs::path& root : search_roots(options)) {
    std::vector<fs::path> directories;
    for (const std::string& folder : files.folders) directories.push_back(root / folder);
    directories.push_back(root);
    for (const fs::path& directory : directories) {
      std::vector<fs::path> found;
      std::vector<std::string> missing;
      for (const std::string& name : files.names) {
        const auto path = find_file(directory, name, files.may_be_gzip);
        if (path) {
          found.push_back(*path);
        } else {
          missing.push_back(name);
        }
      }
      if (missing.empty()) {
        if (!options.data_dir.empty() && root != options.data_dir) {
          spdlog::warn("{}: not in {}, taken from {}", files.dataset, options.data_dir.string(),
                       directory.string());
        }
        return found;
      }
      tried += fmt::format("\n  {}", directory.string());
      if (!found.empty()) tried += fmt::format(" (it lacks {})", fmt::join(missing, ", "));
    }
  }
  fail("{}: no directory holds {}{}; tried:{}\nGive the directory with --data-dir, or set DETENT_DATA.",
       files.dataset, fmt::join(files.names, " and "), files.may_be_gzip ? " (each may end in .gz)" : "",
       tried.empty() ? " none" : tried);
}

}  // namespace detent

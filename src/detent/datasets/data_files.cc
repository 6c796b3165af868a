#include "detent/datasets/data_files.h"

#include <fmt/ranges.h>

#include <algorithm>
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

struct Place {
  fs::path root;
  fs::path directory;
};

std::vector<Place> search_places(const DataFiles& files, const DatasetOptions& options) {
  std::vector<Place> places;
  for (const fs::path& root : search_roots(options)) {
    for (const std::string& folder : files.folders) places.push_back({root, root / folder});
    places.push_back({root, root});
  }
  return places;
}

/// Files found in one place.
struct Finding {
  Place place;
  std::vector<fs::path> found;
  std::vector<std::string> missing;
};

Finding look_into(const Place& place, const DataFiles& files) {
  Finding finding{place, {}, {}};
  for (const std::string& name : files.names) {
    const auto path = find_file(place.directory, name, files.may_be_gzip);
    if (path) {
      finding.found.push_back(*path);
    } else {
      finding.missing.push_back(name);
    }
  }
  return finding;
}

std::vector<fs::path> accepted(const Finding& finding, const DataFiles& files,
                               const DatasetOptions& options) {
  const auto& [place, found, missing] = finding;
  if (!options.data_dir.empty() && place.root != options.data_dir) {
    log_warning("{}: not in {}, taken from {}", files.dataset, options.data_dir.string(),
                place.directory.string());
  }
  if (!missing.empty()) {
    log_warning("{}: {} lacks {}; only the samples of {} of {} files are used", files.dataset,
                place.directory.string(), fmt::join(missing, ", "), found.size(), files.names.size());
  }
  return found;
}

}  // namespace

std::vector<fs::path> find_data_files(const DataFiles& files, const DatasetOptions& options) {
  std::string tried;
  std::optional<Finding> some;
  for (const Place& place : search_places(files, options)) {
    const Finding finding = look_into(place, files);
    if (finding.missing.empty()) return accepted(finding, files, options);
    tried += fmt::format("\n  {}", place.directory.string());
    if (finding.found.empty()) continue;
    tried += fmt::format(" (it lacks {})", fmt::join(finding.missing, ", "));
    if (!some) some = finding;
  }
  if (some && files.some_are_enough) return accepted(*some, files, options);
  const bool published = std::ranges::any_of(
      published_datasets(), [&](const PublishedDataset& set) { return set.name == files.dataset; });
  fail("{}: no directory holds {}{}; tried:{}\nGive the directory with --data-dir, or set DETENT_DATA{}.",
       files.dataset, fmt::join(files.names, " and "), files.may_be_gzip ? " (each may end in .gz)" : "",
       tried.empty() ? " none" : tried,
       published ? fmt::format(", or download them: `detent data fetch {}`", files.dataset) : "");
}

}  // namespace detent

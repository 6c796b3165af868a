#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

#include "detent/datasets/data_files.h"

namespace detent {

struct FetchOptions {
  /// A base address or a folder that replaces the mirrors; empty: the mirrors.
  std::string from;
  /// The files go to the data set's folder below it.
  std::filesystem::path root;
  int attempts = 5;  // a mirror, at least 1
  /// Delay before the second attempt; doubled each time.
  std::chrono::milliseconds delay{1000};
  std::chrono::seconds patience{30};        // see Download
  int64_t least_speed = 1000;               // bytes a second, over `patience`
  std::chrono::seconds max_time{6 * 3600};  // of everything together
  std::function<void(const std::string& file, uint64_t done, uint64_t total)> progress = {};
};

enum class Fetched { kNow, kBefore };

/// Brings the files of a data set to options.root / published.folder: downloads (or copies) each to
/// "<name>.part", resuming where an earlier run stopped, checks size and digest, and then gives it its name;
/// of an archive the wanted files are unpacked likewise, and the archive is removed. A name therefore never
/// stands for half a file. Attempts that fail for the moment are repeated, with a warning and growing delays,
/// then the next mirror is tried. Files that are there are not fetched again (checked by digest, unpacked
/// ones by size). Only one process fetches into a folder at a time. Throws Error with what went wrong at
/// every mirror.
Fetched fetch_dataset(const PublishedDataset& published, const FetchOptions& options);

/// Whether all files are there, judged by their sizes.
bool is_fetched(const PublishedDataset& published, const std::filesystem::path& root);

}  // namespace detent

#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "detent/datasets/dataset.h"

namespace detent {

/// Files that lie together in one folder.
struct DataFiles {
  std::string dataset;               // begins the messages
  std::vector<std::string> folders;  // searched below each root before the root itself
  std::vector<std::string> names;
  bool may_be_gzip = false;      // each may also end in .gz
  bool some_are_enough = false;  // where no folder holds them all, the first that holds some will do
};

/// Paths of `files.names`, in their order, from the first folder that holds them all. Roots are
/// options.data_dir, $DETENT_DATA and ~/.cache/detent, in that order; warns when it is not the data_dir that
/// was given, and when some files are missing but enough. Throws Error with every folder that was tried and
/// what it lacks.
std::vector<std::filesystem::path> find_data_files(const DataFiles& files, const DatasetOptions& options);

/// A file as its authors publish it.
struct PublishedFile {
  std::string name;
  uint64_t size;       // bytes
  std::string digest;  // published MD5 or SHA-256, hexadecimal
};

/// A file that lies in a published archive.
struct ArchivedFile {
  std::string name;  // without the archive's folders
  uint64_t size;
};

struct PublishedDataset {
  std::string name;
  std::string folder;                // below the root of the data, where the data set looks for its files
  std::vector<std::string> mirrors;  // base addresses of the names, in the order to try them
  std::vector<PublishedFile> files;
  std::vector<ArchivedFile>
      archived;  // what of the one file, a .tar.gz, is kept; empty: files are no archives
};

/// Data sets that can be fetched.
std::span<const PublishedDataset> published_datasets();

/// By name or by an alias of the data set. Throws Error on another name, naming the nearest.
const PublishedDataset& published_dataset(std::string_view name);

}  // namespace detent

#pragma once

#include <filesystem>
#include <string>
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

}  // namespace detent

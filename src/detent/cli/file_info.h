#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "detent/core/value.h"
#include "detent/graph/graph.h"
#include "detent/io/tensor_summary.h"

namespace detent {

/// What a file holds.
struct FileInfo {
  std::string kind;  // "graph", "safetensors", "PyTorch checkpoint", ...
  std::vector<TensorSummary> tensors;
  Table facts;              // further lines, by name
  std::vector<Node> nodes;  // of a graph
};

/// Recognises the kind by the content, whatever the name, and reads headers, directories and pickles only:
/// the elements of tensors stay on the disk, except boolean ones of graphs and of files with packed tensors.
/// Throws Error naming the file when it is damaged or of no known kind.
FileInfo read_file_info(const std::filesystem::path& path);

}  // namespace detent

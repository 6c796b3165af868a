#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "detent/core/value.h"
#include "detent/graph/graph.h"
#include "detent/files/tensor_summary.h"

namespace detent {

/// What a file holds.
struct FileInfo {
  std::string kind;  // "graph", "safetensors", "PyTorch checkpoint", ...
  std::vector<TensorSummary> tensors;
  Table facts;  // further lines, by name
  std::optional<Graph> graph = {};
};

// Each describes files of one kind. Headers, directories and pickles are read only: the elements of tensors
// stay on the disk, except boolean ones of graphs and of files with packed tensors. Throw Error naming the
// file when it is damaged.

/// A network, where these are the shapes of its inputs; without, as it leaves them open.
FileInfo graph_info(const std::filesystem::path& path, const InputShapes& shapes);
FileInfo safetensors_info(const std::filesystem::path& path, const InputShapes& shapes);
FileInfo npy_info(const std::filesystem::path& path, const InputShapes& shapes);
FileInfo npz_info(const std::filesystem::path& path, const InputShapes& shapes);
FileInfo gguf_info(const std::filesystem::path& path, const InputShapes& shapes);
FileInfo checkpoint_info(const std::filesystem::path& path, const InputShapes& shapes);
/// As the graph that the model becomes.
FileInfo onnx_info(const std::filesystem::path& path, const InputShapes& shapes);
/// The folder of a config.json.
FileInfo language_info(const std::filesystem::path& path, const InputShapes& shapes);

}  // namespace detent

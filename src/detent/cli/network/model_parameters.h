#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "detent/cli/file_kind.h"
#include "detent/graph/graph.h"

namespace detent {

/// Fills a network with the parameters in a file of this kind, whatever was wrapped around it in training.
/// Throws Error that lists all that does not fit.
void read_parameters(Graph& graph, const FileKind& kind, const std::filesystem::path& file);

/// A built-in network for parameters that are in a file.
struct ParametersOf {
  std::string model;
  InputShapes shapes = {};                            // batch first; none: what the model was made for
  std::optional<int64_t> class_count = std::nullopt;  // none: likewise
};

/// The built-in network with the parameters in the file, or the network that the file holds. Throws Error
/// where it holds neither, and where they do not fit.
Graph read_network_of(const std::filesystem::path& file, const ParametersOf& network);

}  // namespace detent

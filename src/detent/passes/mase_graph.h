#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "detent/graph/graph.h"

namespace detent {

/// Writes graph_module.mz (graph, quantization, weights, metadata), node_meta_param.toml and state_dict.pt.
/// Weights of the first may be packed (write_packed_graph); those of the last are the graph's own, so nothing
/// is lost. Returns a line for each quantized parameter that could not be packed.
enum class StoredWeights { kFloat, kPacked };
std::vector<std::string> save_mase_graph(const Graph& graph, const std::filesystem::path& directory,
                                         StoredWeights weights = StoredWeights::kFloat);

/// Reads a .mz file, or the graph_module.mz of a folder that save_mase_graph wrote.
Graph load_mase_graph(const std::filesystem::path& path);

}  // namespace detent

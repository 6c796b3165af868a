#pragma once

#include <filesystem>

#include "detent/graph/graph.h"

namespace detent {

/// Writes graph_module.mz (graph, quantization, weights, metadata), node_meta_param.toml and state_dict.pt.
void save_mase_graph(const Graph& graph, const std::filesystem::path& directory);

/// Reads a .mz file, or the graph_module.mz of a folder that save_mase_graph wrote.
Graph load_mase_graph(const std::filesystem::path& path);

}  // namespace detent

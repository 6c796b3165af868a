#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "detent/graph/graph.h"

namespace detent {

/// `path`, or, where it is a folder, the graph in it or the config.json of a language model.
std::filesystem::path graph_file(const std::filesystem::path& path);

/// The network in a file, which is a graph, an ONNX model or the folder of a language model. `shapes` are
/// those of inputs whose sizes it leaves open, of which all but the batch are fixed then. Throws Error where
/// the file holds no network.
Graph read_network(const std::filesystem::path& path, const InputShapes& shapes = {});

/// Whether its quantizers were trained, or put there for a simulation, and it is not ready for integers yet.
bool brings_quantizers(const Graph& graph);

}  // namespace detent

#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "detent/graph/graph.h"
#include "detent/graph/tensor_type.h"

namespace detent {

/// `path`, or, where it is a folder, the graph in it or the config.json of a language model.
std::filesystem::path graph_file(const std::filesystem::path& path);

/// The network in a file, which is a graph, an ONNX model or the folder of a language model. `shapes` are
/// those of inputs whose sizes it leaves open, of which all but the batch are fixed then. Throws Error where
/// the file holds no network.
Graph read_network(const std::filesystem::path& path, const InputShapes& shapes = {});

/// Whether its quantizers were trained, or put there for a simulation, and it is not ready for integers yet.
bool brings_quantizers(const Graph& graph);

/// The two parts of "NAME=value"; the name may hold "=" where the value does not. `value` is what an error
/// says there should be. Throws UsageError naming the option.
std::pair<std::string, std::string> named_value(std::string_view option, std::string_view value,
                                                const std::string& text);

/// Parses the option --shape: "NAME=1,3,224,224" each. Throws UsageError where it says something else.
InputShapes named_shapes(std::span<const std::string> texts);
/// The same of one text with ";" between shapes; "" lists none.
InputShapes listed_shapes(const std::string& text);

}  // namespace detent

#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "detent/cli/file_kind.h"
#include "detent/cli/run_options.h"
#include "detent/graph/executor.h"
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

/// The same where a model is named, else the network that the file holds. Throws Error that names `option`
/// where the file holds parameters and no model is named.
Graph read_network_or_parameters(const std::filesystem::path& file, const ParametersOf& network,
                                 std::string_view option);

/// To be quantized anew: a network of a folder whose matrices are quantized, without the roundings of their
/// inputs, which it says; any other as it is. `source`: where it was read from.
Graph network_to_quantize(const Graph& graph, const std::filesystem::path& source);

/// Throws Error where `engine` is kIntegers and the graph is not quantized for integer execution.
void check_engine(const Graph& graph, Engine engine);

/// The graph by the plain reference or the fast engine. Throws Error as check_engine does.
std::unique_ptr<const Program> integer_program(const Graph& graph, Engine engine);

/// By the engine that was asked for; by none, or the simulation, the fast one in float.
std::unique_ptr<const Program> program_of(Graph graph, std::optional<Engine> engine);

}  // namespace detent

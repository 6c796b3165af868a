#include "detent/cli/torch/session.h"

#include <algorithm>

#include "detent/core/error.h"
#include "detent/core/log.h"
#include "detent/execution/initialize.h"
#include "detent/graph/operators.h"
#include "detent/graph/state_dict.h"
#include "detent/io/file_kind.h"
#include "detent/io/safetensors.h"
#include "detent/io/torch_checkpoint.h"
#include "detent/models/model.h"
#include "detent/passes/mase_graph.h"

namespace detent {
namespace {

Graph build_network(const TorchCommand& command, const Dataset& dataset) {
  DETENT_CHECK(command.options.model.has_value(), "no model");
  Graph graph = build_model(*command.options.model, dataset.sample_shape(), dataset.class_count());
  initialize_parameters(graph);
  return graph;
}

/// A saved graph brings its own input shape and classes: they must be the data set's.
void check_fits(const Graph& graph, const Dataset& dataset, const std::string& file) {
  Shape wanted = dataset.sample_shape();
  wanted.insert(wanted.begin(), 1);
  const auto& inputs = graph.input_shapes();
  if (inputs.size() != 1 || inputs.begin()->second != wanted) {
    fail("{}: graph \"{}\" takes inputs of shape {}, the data set has {}", file, graph.name(),
         inputs.empty() ? "[]" : shape_text(inputs.begin()->second), shape_text(wanted));
  }
  const Shape output = infer_shapes(graph).at("output").shape;
  if (output != Shape{1, dataset.class_count()}) {
    fail("{}: graph \"{}\" gives outputs of shape {}, the data set has {} classes", file, graph.name(),
         shape_text(output), dataset.class_count());
  }
}

std::optional<LoadType> type_of(FileKind kind, const std::string& file) {
  if (kind == FileKind::kGraph) return LoadType::kMz;
  if (kind == FileKind::kSafetensors) return LoadType::kSafetensors;
  if (kind != FileKind::kCheckpoint) return std::nullopt;
  return summarize_checkpoint(file).lightning ? LoadType::kPl : LoadType::kPt;
}

/// What was told, unless the file is something else, or what the file says.
LoadType load_type(const RunOptions& options) {
  constexpr LoadType kOfFolder = LoadType::kMz;
  const std::string& file = *options.load;
  if (std::filesystem::is_directory(file)) return options.load_type.value_or(kOfFolder);
  const FileKind kind = file_kind(file);
  const std::optional<LoadType> found = type_of(kind, file);
  if (!found)
    fail("{}: it is {}, expected a graph or the parameters of a network", file, file_kind_text(kind));
  const auto name = [](LoadType type) { return enum_names(type)[static_cast<size_t>(type)]; };
  if (!options.load_type) {
    spdlog::info("{} is {}: load_type = {}", file, file_kind_text(kind), name(*found));
    return *found;
  }
  const auto is_checkpoint = [](LoadType type) { return type == LoadType::kPt || type == LoadType::kPl; };
  const LoadType told = *options.load_type;
  if (told != *found && !(is_checkpoint(told) && is_checkpoint(*found))) {
    fail("{}: it is {} (load_type = {}), got load_type = {}", file, file_kind_text(kind), name(*found),
         name(told));
  }
  return told;
}

}  // namespace

std::unique_ptr<Dataset> load_split(const TorchCommand& command, Split split) {
  DETENT_CHECK(command.options.dataset.has_value(), "no data set");
  const RunOptions& options = command.options;
  return make_dataset(*options.dataset, split,
                      {.data_dir = options.data_dir.value_or(""),
                       .image_size = options.image_size,
                       .transforms = options.transforms,
                       .seed = options.seed});
}

Graph load_network(const TorchCommand& command, const Dataset& dataset) {
  const RunOptions& options = command.options;
  if (!options.load) return build_network(command, dataset);
  const LoadType type = load_type(options);
  if (type == LoadType::kMz) {
    Graph graph = load_mase_graph(*options.load);
    check_fits(graph, dataset, *options.load);
    if (options.model && find_model(*options.model).name != graph.name()) {
      spdlog::warn("{} holds \"{}\", not the model \"{}\"", *options.load, graph.name(), *options.model);
    }
    return graph;
  }
  Graph graph = build_network(command, dataset);
  StateDict state = type == LoadType::kSafetensors ? read_safetensors(*options.load).tensors
                                                   : read_state_dict(*options.load);
  if (type == LoadType::kPl) state = without_model_prefix(std::move(state));
  state = without_wrapper_prefixes(std::move(state));
  load_state_dict(graph, state, *options.load);
  return graph;
}

bool is_quantized(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(), [](const Node& node) { return !node.quantization.empty(); });
}

}  // namespace detent

#include "detent/cli/torch/session.h"

#include <algorithm>

#include "detent/core/error.h"
#include "detent/core/log.h"
#include "detent/execution/initialize.h"
#include "detent/graph/operators.h"
#include "detent/graph/state_dict.h"
#include "detent/io/safetensors.h"
#include "detent/io/torch_checkpoint.h"
#include "detent/models/model.h"
#include "detent/passes/mase_graph.h"

namespace detent {
namespace {

Graph build_network(const TorchCommand& command, const Dataset& dataset) {
  DETENT_CHECK(command.options.model.has_value(), "no model");
  const int64_t classes =
      dataset.class_count() > 0 ? dataset.class_count() : find_model(*command.options.model).class_count;
  Graph graph = build_model(*command.options.model, dataset.sample_shape(), classes);
  initialize_parameters(graph);
  return graph;
}

std::string classes_text(const Dataset& dataset) {
  return fmt::format(
      "the data set ({}) has {} classes; where an image_folder has only some of the network's, "
      "name all of them with --classes FILE",
      dataset.source(), dataset.class_count());
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
  const bool unknown = dataset.class_count() == 0;
  if (output.size() != 2 || !(unknown || output == Shape{1, dataset.class_count()})) {
    fail("{}: graph \"{}\" gives outputs of shape {}, {}", file, graph.name(), shape_text(output),
         classes_text(dataset));
  }
}

}  // namespace

std::unique_ptr<Dataset> load_split(const TorchCommand& command, Split split) {
  DETENT_CHECK(command.options.dataset.has_value(), "no data set");
  const RunOptions& options = command.options;
  return make_dataset(*options.dataset, split,
                      {.data_dir = options.data_dir.value_or(""),
                       .image_size = options.image_size,
                       .classes = options.classes.value_or(""),
                       .transforms = options.transforms,
                       .seed = options.seed});
}

Graph load_network(const TorchCommand& command, const Dataset& dataset) {
  const RunOptions& options = command.options;
  if (!options.load) return build_network(command, dataset);
  if (options.load_type == LoadType::kMz) {
    Graph graph = load_mase_graph(*options.load);
    check_fits(graph, dataset, *options.load);
    if (options.model && find_model(*options.model).name != graph.name()) {
      spdlog::warn("{} holds \"{}\", not the model \"{}\"", *options.load, graph.name(), *options.model);
    }
    return graph;
  }
  Graph graph = build_network(command, dataset);
  StateDict state = options.load_type == LoadType::kSafetensors ? read_safetensors(*options.load).tensors
                                                                : read_state_dict(*options.load);
  if (options.load_type == LoadType::kPl) state = without_model_prefix(std::move(state));
  state = without_wrapper_prefixes(std::move(state));
  try {
    load_state_dict(graph, state, *options.load);
  } catch (const Error& error) {
    const bool other_count = dataset.class_count() != find_model(*options.model).class_count;
    if (!other_count) throw;
    fail("{} ({})", error.what(), classes_text(dataset));
  }
  return graph;
}

bool is_quantized(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(), [](const Node& node) { return !node.quantization.empty(); });
}

}  // namespace detent

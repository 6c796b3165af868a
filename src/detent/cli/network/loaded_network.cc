#include "detent/cli/network/loaded_network.h"

#include <utility>
#include <variant>

#include "detent/checkpoints/torch_checkpoint.h"
#include "detent/cli/read_network.h"
#include "detent/core/error.h"
#include "detent/core/error_fields.h"
#include "detent/core/log.h"
#include "detent/engine/fast_executor.h"
#include "detent/graph/graph_parameters.h"
#include "detent/inference/integer_executor.h"
#include "detent/language/language_model.h"
#include "detent/models/model.h"
#include "detent/passes/transform/graph_edits.h"

namespace detent {
namespace {

/// Built-in networks have one input.
Shape sample_shape(const ModelInfo& model, const InputShapes& shapes) {
  if (shapes.empty()) return model.sample_shape;
  const std::vector<std::string> inputs = model.build(model.sample_shape, model.class_count).input_names();
  for (const auto& [name, shape] : shapes) {
    if (name != inputs.front()) fail_unknown("shapes", "input", name, inputs, {.key = "shapes"});
    if (shape.size() < 2)
      fail_value("shapes: " + name, shape_text(shape), "a batch of samples", {.key = "shapes"});
  }
  const Shape& shape = shapes.begin()->second;
  return {shape.begin() + 1, shape.end()};
}

/// Inputs of layers are rounded, and nothing else.
bool rounds_inputs_alone(const Graph& graph) {
  bool rounds = false;
  for (const Node& node : graph.nodes()) {
    for (const auto& [operand, quantizer] : node.quantization) {
      if (operand != "data_in_0" || node.find_parameter("weight") == nullptr) return false;
      rounds = true;
    }
  }
  return rounds;
}

}  // namespace

Graph network_to_quantize(const Graph& graph, const std::filesystem::path& source) {
  if (!is_language_folder(source) || !rounds_inputs_alone(graph)) return graph;
  log_info("{}: its own rounding of the inputs of quantized matrices is left out: they are quantized anew",
           source.string());
  return without_quantization(graph);
}

void read_parameters(Graph& graph, const FileKind& kind, const std::filesystem::path& file) {
  const StateDict state = without_wrapper_prefixes(std::get<StateDictReader>(kind.read)(file));
  load_state_dict(graph, state, file.string());
}

Graph read_network_of(const std::filesystem::path& file, const ParametersOf& network) {
  const ModelInfo& model = find_model(network.model);
  const FileKind& kind = file_kind(graph_file(file));
  if (kind.load_type == nullptr)
    fail("{}: it is {}, expected a graph or the parameters of a network", file.string(), kind.text);
  if (kind.holds_graph()) {
    Graph graph = read_network(file, network.shapes);
    if (model.name != graph.name())
      log_warning("{} holds \"{}\", not the model \"{}\"", file.string(), graph.name(), network.model);
    return graph;
  }
  const int64_t classes = network.class_count.value_or(model.class_count);
  if (classes < 1) fail_value("classes", std::to_string(classes), "at least 1", {.key = "classes"});
  const Shape sample = sample_shape(model, network.shapes);
  Graph graph = build_model(model.name, sample, classes);
  try {
    read_parameters(graph, kind, file);
  } catch (const Error& error) {
    throw with_fields(
        error,
        fmt::format("{} (it was built for samples of {} and {} classes, which shapes and classes change)",
                    error.what(), shape_text(sample), classes),
        {.file = file.string()});
  }
  return graph;
}

Graph read_network_or_parameters(const std::filesystem::path& file, const ParametersOf& network,
                                 std::string_view option) {
  if (!network.model.empty()) return read_network_of(file, network);
  if (network.class_count) fail("classes: got {} without a model, which it is for", *network.class_count);
  const FileKind& kind = file_kind(graph_file(file));
  if (std::holds_alternative<StateDictReader>(kind.read))
    fail(
        "{}: it is {}, which holds parameters, and whose they are is not in it: name the model ({}, one of "
        "`detent list models`)",
        file.string(), kind.text, option);
  return read_network(file, network.shapes);
}

void check_engine(const Graph& graph, Engine engine) {
  if (engine != Engine::kIntegers) return;
  if (!graph.requantization()) {
    fail(
        "--engine integers: graph \"{}\" is not quantized for integer execution: `detent quantize` does that",
        graph.name());
  }
  check_integer_execution(graph);
}

std::unique_ptr<const Program> integer_program(const Graph& graph, Engine engine) {
  check_engine(graph, engine);
  if (engine == Engine::kReference) return IntegerExecutor().compile(graph);
  return FastExecutor().compile(graph);
}

std::unique_ptr<const Program> program_of(Graph graph, std::optional<Engine> engine) {
  if (engine && *engine != Engine::kSimulation) return integer_program(graph, *engine);
  return std::make_unique<FastProgram>(std::move(graph));  // gives weights back that it packs
}

}  // namespace detent

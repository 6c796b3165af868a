#include <algorithm>
#include <filesystem>

#include <fmt/core.h>

#include "detent/cli/torch/calibration.h"
#include "detent/cli/torch/commands.h"
#include "detent/cli/torch/session.h"
#include "detent/core/error.h"
#include "detent/core/log.h"
#include "detent/datasets/dataset.h"
#include "detent/execution/interpreter.h"
#include "detent/execution/torch_tensor.h"
#include "detent/passes/analysis/quantization_account.h"
#include "detent/passes/mase_graph.h"
#include "detent/passes/pass.h"
#include "detent/runtime/integer_executor.h"
#include "detent/training/evaluate.h"

namespace detent {
namespace {

constexpr const char* kPass = "static_quantize";
constexpr int64_t kAccountSamples = 64;
constexpr int64_t kCheckedSamples = 16;

Tensor test_inputs(const Dataset& dataset, int64_t count) {
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < std::min(count, dataset.size()); ++i) indices.push_back(i);
  return dataset.batch(indices).inputs;
}

/// The promise that simulation is execution, kept on some samples of the user's own.
std::string check_integers(const Graph& graph, const Dataset& dataset) {
  const Tensor inputs = test_inputs(dataset, kCheckedSamples);
  std::optional<IntegerExecutor> integers;
  try {
    integers.emplace(graph);
  } catch (const Error& error) {
    return fmt::format("not possible: {}", error.what());
  }
  using Values = std::map<std::pair<std::string, std::string>, Tensor>;
  const auto values_of = [&](Executor& executor) {
    Values values;
    executor.run(graph, std::span(&inputs, 1),
                 [&](const Node& node, std::string_view operand, const Tensor& value) {
                   const QuantSpec* spec = node.find_quantization(operand);
                   if (spec != nullptr) values[{node.name, std::string(operand)}] = simulate(*spec, value);
                 });
    return values;
  };
  TorchExecutor simulation;
  const Values expected = values_of(simulation);
  const Values actual = values_of(*integers);
  for (const auto& [operand, value] : expected) {
    const auto found = actual.find(operand);
    if (found != actual.end() && std::ranges::equal(value.values<float>(), found->second.values<float>()))
      continue;
    DETENT_CHECK(false, "node {}, operand {}: simulation and integer execution differ", operand.first,
                 operand.second);
  }
  return fmt::format("{} samples, {} tensors, every code equal to the simulation's", inputs.dim(0),
                     expected.size());
}

/// The passes before `kPass`, and it with those behind.
std::pair<Table, Table> split_passes(const Table& passes) {
  Table before;
  Table rest;
  for (const auto& [name, options] : passes) {
    Table& part = rest.empty() && name != kPass ? before : rest;
    part[name] = options;
  }
  return {std::move(before), std::move(rest)};
}

}  // namespace

void run_quantize(const TorchCommand& command, ProcessGroup& group) {
  const auto training_set = load_split(command, Split::kTrain);
  const auto test_set = load_split(command, Split::kTest);
  const int64_t batch_size = command.options.training.batch_size;
  Graph graph = load_network(command, *training_set);
  if (is_quantized(graph)) fail("{} is quantized already", *command.options.load);
  const Metrics before = evaluate(graph, *test_set, batch_size, group);

  TorchExecutor executor;
  const std::filesystem::path output_dir = command.software_dir / "quantize";
  PassContext context = make_pass_context(*training_set, batch_size, output_dir, executor);
  context.group = &group;
  context.loader_threads = command.options.num_workers;
  context.checkpoint_every = command.options.checkpoint_every;
  for (const char* pass : {"init_metadata", "add_common_metadata", "add_software_metadata"}) {
    find_pass(pass).run(graph, {}, context);
  }
  const auto [prepare, quantize] = split_passes(command.passes);
  run_pipeline(graph, prepare, "the command line", context);
  const Graph reference = graph.deep_copy();
  run_pipeline(graph, quantize, "the command line", context);
  report_account(account_for_quantization(reference, graph, kAccountSamples, context), output_dir, context,
                 *command.passes.find(kPass)->get_if<Table>());

  const Metrics after = evaluate(graph, *test_set, batch_size, group);
  fmt::print("test before: {}\ntest after:  {}\n", before.text(), after.text());
  fmt::print("integer execution: {}\n", check_integers(graph, *test_set));
  if (group.is_first()) save_mase_graph(graph, output_dir);
  fmt::print("quantized graph: {}\n", (output_dir / "graph_module.mz").string());
}

}  // namespace detent

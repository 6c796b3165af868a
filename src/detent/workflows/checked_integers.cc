#include "detent/workflows/checked_integers.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "detent/core/error.h"
#include "detent/core/progress.h"
#include "detent/engine/fast_executor.h"
#include "detent/evaluation/batches.h"
#include "detent/graph/activation_memory.h"
#include "detent/graph/open_shapes.h"
#include "detent/passes/analysis/network_cost.h"
#include "detent/runtime/integer_executor.h"

namespace detent {
namespace {

constexpr int64_t kCheckedSamples = 16;

bool have_equal_elements(const Tensor& a, const Tensor& b) {
  if (a.dtype() != DType::kFloat32) return a.equals(b);
  return a.shape() == b.shape() && std::ranges::equal(a.values<float>(), b.values<float>());
}

}  // namespace

std::vector<Tensor> first_inputs(const Dataset& dataset, int64_t count) {
  std::vector<int64_t> indices = sequential_order(std::min(count, dataset.size()));
  indices.resize(static_cast<size_t>(dataset.same_size_end(indices, 0, std::ssize(indices))));
  return dataset.batch(indices).inputs;
}

CheckedIntegers check_integers(const Graph& graph, const Dataset& dataset, bool shows_progress) {
  constexpr double kMostProducts = 2e9;  // the plain reference takes some seconds for that
  const double products = multiply_adds(graph, sizes_of(graph, first_inputs(dataset, 1)));
  const std::vector<Tensor> inputs = first_inputs(
      dataset, affordable_samples(fixed_samples(graph).value_or(kCheckedSamples), products, kMostProducts));
  std::optional<IntegerProgram> integers;
  try {
    check_integer_execution(graph);
    integers.emplace(graph);
  } catch (const Error& error) {
    return {fmt::format("not possible: {}", error.what())};
  }
  using Values = std::map<std::pair<std::string, std::string>, Tensor>;
  Progress progress("comparing with integer execution, nodes", 2 * std::ssize(graph.nodes()),
                    {.shown = shows_progress});
  std::set<std::pair<const Program*, std::string>> seen;
  const auto values_of = [&](const Program& program) {
    Values values;
    const auto observe = [&](const Node& node, std::string_view operand, const Tensor& value) {
      seen.emplace(&program, node.name);
      progress.update(std::ssize(seen), node.name);
      const bool quantized = node.find_quantization(operand) != nullptr;
      if (quantized) values[{node.name, std::string(operand)}] = value.clone();
    };
    const std::vector<Tensor> outputs = program.run(inputs, {observe});
    for (size_t i = 0; i < outputs.size(); ++i)
      values[{graph.nodes().back().name, fmt::format("data_in_{}", i)}] = outputs[i];
    return values;
  };
  const Values actual = values_of(*integers);
  integers.reset();  // as large as the other
  const Values expected = values_of(*FastExecutor().compile(graph));
  for (const auto& [operand, value] : expected) {
    const auto found = actual.find(operand);
    if (found != actual.end() && have_equal_elements(value, found->second)) continue;
    DETENT_CHECK(false, "node {}, operand {}: simulation and integer execution differ", operand.first,
                 operand.second);
  }
  const FastProgram program(graph);
  const std::vector<Tensor> fast = program.run(inputs);
  for (size_t i = 0; i < fast.size(); ++i) {
    const Tensor& value = expected.at({graph.nodes().back().name, fmt::format("data_in_{}", i)});
    DETENT_CHECK(have_equal_elements(value, fast[i]), "output {}: simulation and the fast engine differ", i);
  }
  return {fmt::format("{} samples, {} tensors, all integers equal fake quantization", inputs.front().dim(0),
                      expected.size()),
          slow_steps_text(program.profile(inputs, 1))};
}

}  // namespace detent

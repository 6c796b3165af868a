#include "detent/passes/analysis/profile_progress.h"

#include <algorithm>
#include <map>
#include <set>

#include "detent/core/error.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"

namespace detent {
namespace {

/// The name of a value, and whether it is the value before it is quantized.
using Source = std::pair<std::string, bool>;

Source source_of(const Graph& graph, const Probe& probe) {
  const Node& node = graph.nodes()[probe.node];
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (probe.operand == fmt::format("data_in_{}", i)) return {value_name(node.inputs[i]), false};
  }
  for (size_t i = 0; i < result_count(node); ++i) {
    if (probe.operand != fmt::format("data_out_{}", i)) continue;
    return {value_name(node.name, i), node.find_quantization(probe.operand) != nullptr};
  }
  DETENT_CHECK(false, "operand {} of {}", probe.operand, node.name);
  return {};
}

bool is_quantized(const Node& node) {
  return node.find_quantization("data_in_0") != nullptr || node.find_quantization("data_out_0") != nullptr;
}

}  // namespace

SweepPlan plan_sweeps(const Graph& graph, ObservedValues values, std::vector<Probe>& probes) {
  SweepPlan plan;
  const bool records =
      std::ranges::any_of(probes, [](const Probe& probe) { return probe.collector.records(); });
  if (records || values == ObservedValues::kAfterQuantization || graph.requantization()) {
    for (Probe& probe : probes) plan.sweeps.push_back({&probe});
    return plan;
  }
  std::map<Source, Probe*> first_of;
  for (Probe& probe : probes) {
    const auto [first, is_new] = first_of.try_emplace(source_of(graph, probe), &probe);
    if (!is_new) plan.copies.emplace_back(&probe, first->second);
  }
  std::map<const Probe*, Probe*> post_relu;
  std::set<const Probe*> shared;
  for (const Node& node : graph.nodes()) {
    if (!is_rectifier(node) || is_quantized(node)) continue;
    const auto input = first_of.find({value_name(node.inputs.front()), false});
    const auto output = first_of.find({node.name, false});
    // A sweep for two others at once there is not.
    if (input == first_of.end() || output == first_of.end() || shared.contains(input->second) ||
        post_relu.contains(input->second))
      continue;
    post_relu[input->second] = output->second;
    shared.insert(output->second);
  }
  for (const auto& [source, probe] : first_of) {
    if (shared.contains(probe)) continue;
    const auto found = post_relu.find(probe);
    plan.sweeps.push_back({probe, found == post_relu.end() ? nullptr : found->second});
  }
  return plan;
}

}  // namespace detent

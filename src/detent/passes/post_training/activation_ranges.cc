#include "detent/passes/post_training/operand_ranges.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <vector>

#include "detent/core/error.h"
#include "detent/passes/passes.h"
#include "detent/statistics/distribution.h"

namespace detent {
namespace {

Table statistics_for(const std::set<Calibrator>& calibrators) {
  Table statistics{{"range_min_max", Table()}};
  for (const Calibrator calibrator : calibrators) statistics[statistic_of(calibrator)] = Table();
  if (statistics.contains("histogram")) statistics["histogram"] = Table{{"bins", 2048}};
  return statistics;
}

/// Distribution of one operand; nothing of one without elements. Throws Error where that includes NaN or
/// infinities.
std::optional<Distribution> seen(const Node& node, const std::string& operand, const std::string& where) {
  const Table* results = node.statistics.find(operand);
  if (results == nullptr) return std::nullopt;
  const std::string place = fmt::format("{}: node \"{}\", operand \"{}\"", where, node.name, operand);
  const Table& range = *results->find("range_min_max")->get_if<Table>();
  for (const auto& [key, kind] : {std::pair("nan_count", "NaN"), std::pair("infinity_count", "infinite")}) {
    const Value* count = range.find(key);
    if (count == nullptr) continue;
    fail(
        "{}: {} of the calibration values are {} (`detent quantize --keep-float '{}'` leaves the node in "
        "float)",
        place, value_text(*count), kind, node.name);
  }
  return distributions_of_results(*results, place).at(0);
}

}  // namespace

Graph measured_activations(const Graph& graph, const CodePlan& plan, const std::set<Calibrator>& calibrators,
                           int64_t num_samples, PassContext& context) {
  std::set<std::string> targets;
  bool outputs = false;
  for (const CodeGroup& group : plan.groups) {
    for (const CodeRead& read : group.reads) targets.insert(graph.nodes()[read.node].name);
    if (!group.reads.empty()) continue;
    targets.insert(group.root);
    outputs = true;
  }
  List names;
  for (const std::string& name : targets) names.emplace_back(name);
  const Table profile = {
      {"by", "name"},
      {"target_activation_nodes", std::move(names)},
      {"profile_output_activation", outputs},
      {"num_samples", num_samples},
      {"exact_num_samples", true},
      {"allow_uncovered", context.body.has_value()},
      {"activation_statistics", statistics_for(calibrators)},
  };
  Graph copy = graph;
  for (Node& node : copy.nodes()) node.statistics = {};
  find_pass("profile_statistics").run(copy, profile, context);
  return copy;
}

Distribution measured_distribution(const Graph& measured, const CodeGroup& group, const std::string& where) {
  std::vector<Distribution> parts;
  std::set<std::string> values;
  for (const CodeRead& read : group.reads) {
    if (!values.insert(read.value).second) continue;
    if (auto part = seen(measured.nodes()[read.node], fmt::format("data_in_{}", read.input), where))
      parts.push_back(std::move(*part));
  }
  if (group.reads.empty()) {
    if (auto part = seen(measured.node(group.root), "data_out_0", where)) parts.push_back(std::move(*part));
  }
  if (parts.empty()) return Distribution::of(std::array{0.0F});  // any range will do
  Distribution merged = Distribution::merged(parts);
  for (const Distribution& part : parts) {
    if (!part.average_range) continue;
    if (!merged.average_range) merged.average_range = part.average_range;
    merged.average_range->low = std::min(merged.average_range->low, part.average_range->low);
    merged.average_range->high = std::max(merged.average_range->high, part.average_range->high);
  }
  return merged;
}

}  // namespace detent

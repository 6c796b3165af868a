#include "detent/passes/transform/masked_scores.h"

#include <vector>

#include "detent/graph/traits.h"
#include "detent/integer/node_form.h"
#include "detent/passes/passes.h"

namespace detent {
namespace {

using Names = std::set<std::string, std::less<>>;

/// What computes, pair by pair, the input of some softmax.
Names scores_of_softmax(const Graph& graph) {
  std::vector<std::string> open;
  for (const Node& node : graph.nodes())
    if (trait<Softmax>(node) != nullptr) open.push_back(node.inputs.front().node);
  Names scores;
  Names seen;
  while (!open.empty()) {
    const Node& node = graph.node(open.back());
    open.pop_back();
    const bool computes = trait<PairOperation>(node) != nullptr;
    if (!seen.insert(node.name).second || !(computes || moves_codes(node))) continue;
    if (computes) scores.insert(node.name);
    for (const NodeInput& input : node.inputs)
      if (!input.is_constant() && !input.is_absent()) open.push_back(input.node);
  }
  return scores;
}

bool is_masked(const Table& range) {
  constexpr double kVanishes = 104;  // exp(-104) is 0 in float32
  double low = 0;
  double high = 0;
  const double* const min = range.find("min")->number(low);
  const double* const max = range.find("max")->number(high);
  const bool is_within = min != nullptr && max != nullptr && *max - *min <= kVanishes;
  return range.contains("infinity_count") || !is_within;
}

}  // namespace

Names masked_scores(const Graph& graph, const PassContext& context) {
  constexpr int64_t kSamples = 16;
  const Names scores = scores_of_softmax(graph);
  if (scores.empty()) return {};
  const Table profile = {
      {"by", "name"},
      {"target_activation_nodes", List(scores.begin(), scores.end())},
      {"profile_output_activation", true},
      {"num_samples", kSamples},
      {"exact_num_samples", true},
      {"allow_uncovered", true},
      {"activation_statistics", Table{{"range_min_max", Table()}}},
  };
  PassContext quiet = context.quiet();
  quiet.checkpoint_every = 0;
  Graph measured = graph;
  for (Node& node : measured.nodes()) node.statistics = {};
  find_pass("profile_statistics").run(measured, profile, quiet);
  Names masked;
  for (const std::string& name : scores) {
    const Table* results = measured.node(name).statistics.find("data_out_0");
    if (results != nullptr && is_masked(*results->find("range_min_max")->get_if<Table>()))
      masked.insert(name);
  }
  return masked;
}

}  // namespace detent

#include "detent/passes/truth_tables/lutnet_layer.h"

#include <algorithm>

#include "detent/core/error.h"

namespace detent {

ElementSteps::ElementSteps(const std::vector<const Node*>& steps, int64_t channels, size_t rank,
                           Executor& executor)
    : channels_(channels), rank_(rank) {
  if (steps.empty()) return;
  Graph graph("steps");
  Shape shape(rank, 1);
  shape[1] = channels;
  std::string last = "x";
  while (std::ranges::find(steps, last, &Node::name) != steps.end()) last += "_";
  graph.add_input(last, shape);
  for (const Node* step : steps) {
    Node copy = *step;
    copy.inputs = {NodeInput::of(last)};
    last = copy.name;
    graph.add(std::move(copy));
  }
  graph.add({.name = "steps_output",
             .op = "output",
             .mase_type = MaseType::kOutput,
             .inputs = {NodeInput::of(last)}});
  program_ = executor.compile(graph);
}

std::vector<float> ElementSteps::run(const std::vector<float>& rows) const {
  if (program_ == nullptr) return rows;
  Shape shape(rank_, 1);
  shape[0] = static_cast<int64_t>(rows.size()) / channels_;
  shape[1] = channels_;
  const Tensor input = Tensor::from<float>(shape, rows);
  const Tensor output = program_->run({&input, 1}).at(0);
  return {output.values<float>().begin(), output.values<float>().end()};
}

namespace {

std::vector<float> values_of(const std::vector<int64_t>& sums, double scale) {
  std::vector<float> values;
  for (const int64_t sum : sums) values.push_back(static_cast<float>(static_cast<double>(sum) * scale));
  return values;
}

/// Turns outputs round that fall from their least to their largest sum.
void make_rising(IntegerTables& tables, const ElementSteps& steps) {
  std::vector<int64_t> ends;
  for (int64_t o = 0; o < tables.outputs; ++o) ends.push_back(tables.range(o).first);
  for (int64_t o = 0; o < tables.outputs; ++o) ends.push_back(tables.range(o).second);
  const std::vector<float> values = steps.run(values_of(ends, tables.scale));
  for (int64_t o = 0; o < tables.outputs; ++o)
    if (values[static_cast<size_t>(o)] > values[static_cast<size_t>(o + tables.outputs)]) tables.negate(o);
}

}  // namespace

/// By bisection: below `low` the code is less than wanted, from `high` on it is not. A negated output's
/// values are those of the other sign.
std::vector<int32_t> find_thresholds(IntegerTables& tables, const ElementSteps& steps,
                                     const std::vector<float>& gamma) {
  const IntegerTables before = tables;
  make_rising(tables, steps);
  const int64_t count = (int64_t{1} << gamma.size()) - 1;
  std::vector<int64_t> low;
  std::vector<int64_t> high;
  std::vector<int64_t> signs;
  for (int64_t wanted = 1; wanted <= count; ++wanted) {
    for (int64_t o = 0; o < tables.outputs; ++o) {
      const auto [least, most] = tables.range(o);
      low.push_back(least);
      high.push_back(most + 1);
      const bool is_same = std::equal(
          tables.tables_of(o), tables.tables_of(o) + tables.terms * tables.entries, before.tables_of(o));
      signs.push_back(is_same ? 1 : -1);
    }
  }
  while (low != high) {
    std::vector<int64_t> middle;
    std::vector<int64_t> tried;
    for (size_t i = 0; i < low.size(); ++i) {
      middle.push_back(low[i] + (high[i] - low[i]) / 2);
      tried.push_back(middle[i] * signs[i]);
    }
    const std::vector<float> values = steps.run(values_of(tried, tables.scale));
    for (size_t i = 0; i < low.size(); ++i) {
      if (low[i] == high[i]) continue;
      const int wanted = static_cast<int>(static_cast<int64_t>(i) / tables.outputs) + 1;
      if (residual_code(values[i], gamma) >= wanted) {
        high[i] = middle[i];
      } else {
        low[i] = middle[i] + 1;
      }
    }
  }
  std::vector<int32_t> thresholds;
  for (int64_t o = 0; o < tables.outputs; ++o)
    for (int64_t wanted = 0; wanted < count; ++wanted)
      thresholds.push_back(static_cast<int32_t>(low[static_cast<size_t>(wanted * tables.outputs + o)]));
  return thresholds;
}

}  // namespace detent

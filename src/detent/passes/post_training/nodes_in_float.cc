#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "detent/graph/operators.h"
#include "detent/graph/traits.h"
#include "detent/passes/post_training/operand_ranges.h"
#include "detent/passes/post_training/static_quantize.h"

namespace detent {
namespace {

bool holds_infinities(const Node& node, const std::string& operand) {
  const Table* const results = node.statistics.find(operand);
  if (results == nullptr) return false;
  const Table& range = *results->find("range_min_max")->get_if<Table>();
  return range.contains("infinity_count") && !range.contains("nan_count");
}

/// Largest value that codes of so many bits round to 0: a half of their step, which is most / (2^bits - 1) or
/// more.
double rounded_to_zero(const Interval& values, int bits) {
  const double most = std::max(std::fabs(values.low), std::fabs(values.high));
  return most / (2 * (std::exp2(bits) - 1));
}

/// Whether the node gives 0 from codes of 0 of these values.
bool may_give_zero(const Node& node, const Interval& values, int bits) {
  const double zero = rounded_to_zero(values, bits);
  if (double{values.low} > zero || double{values.high} < -zero) return false;
  if (trait<MatrixProduct>(node) != nullptr) return true;
  if (const auto* unary = trait<Unary>(node)) return unary->function(node)(0) == 0;
  const bool adds = *trait<PairOperation>(node) == PairOperation::kAdd;
  const auto is_far = [&](const NodeInput& input) {
    const double* const number = input.constant.get_if<double>();
    return number != nullptr && std::fabs(*number) > zero;
  };
  return !adds || std::ranges::none_of(node.inputs, is_far);
}

bool computes_by_element(const Node& node) {
  return trait<Unary>(node) != nullptr || trait<PairOperation>(node) != nullptr;
}

/// Nodes that compute divisors, or what moves or computes element by element makes divisors of.
std::set<std::string, std::less<>> divisors(const Graph& graph) {
  std::set<std::string, std::less<>> names;
  const auto add = [&](const NodeInput& input) {
    if (!input.is_constant()) names.insert(input.node);
  };
  for (size_t i = graph.nodes().size(); i-- > 0;) {
    const Node& node = graph.nodes()[i];
    const auto* operation = trait<PairOperation>(node);
    if (operation != nullptr && *operation == PairOperation::kDiv) add(node.inputs[1]);
    const bool passes_on = is_view(node) || trait<Movement>(node) != nullptr || computes_by_element(node);
    if (passes_on && names.contains(node.name)) std::ranges::for_each(node.inputs, add);
  }
  return names;
}

}  // namespace

std::set<std::string, std::less<>> infinite_nodes(const Graph& measured, const CodePlan& plan) {
  std::set<std::string, std::less<>> names;
  for (const CodeGroup& group : plan.groups) {
    if (role_of(measured.node(group.root)) == OperatorRole::kInput) continue;
    for (const CodeRead& read : group.reads) {
      const Node& reader = measured.nodes()[read.node];
      if (holds_infinities(reader, fmt::format("data_in_{}", read.input))) names.insert(reader.name);
    }
    if (group.reads.empty() && holds_infinities(measured.node(group.root), "data_out_0"))
      names.insert(group.root);
  }
  return names;
}

std::set<std::string, std::less<>> vanishing_divisors(const Graph& measured, const CodePlan& plan, int bits,
                                                      const std::string& where) {
  std::set<std::string, std::less<>> names;
  const std::set<std::string, std::less<>> divide = divisors(measured);
  for (const CodeGroup& group : plan.groups) {
    std::vector<const Node*> readers;
    for (const CodeRead& read : group.reads) {
      const Node& reader = measured.nodes()[read.node];
      const bool multiplies_values = trait<MatrixProduct>(reader) != nullptr;
      if ((computes_by_element(reader) || multiplies_values) && divide.contains(reader.name))
        readers.push_back(&reader);
    }
    if (readers.empty()) continue;
    const std::optional<Interval> range = measured_distribution(measured, group, where).range;
    for (const Node* reader : readers)
      if (range && may_give_zero(*reader, *range, bits)) names.insert(reader->name);
  }
  return names;
}

}  // namespace detent

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
  if (trait<MatrixProduct>(node) != nullptr) return true;
  if (const auto* unary = trait<Unary>(node)) return unary->function(node)(0) == 0;
  const bool adds = *trait<PairOperation>(node) == PairOperation::kAdd;
  const auto is_far = [&](const NodeInput& input) {
    const double* const number = input.constant.get_if<double>();
    return number != nullptr && std::fabs(*number) > zero;
  };
  return !adds || std::ranges::none_of(node.inputs, is_far);
}

/// Whether codes of so many bits hold 0 for some of these values.
bool may_be_zero(const Interval& values, int bits) {
  const double zero = rounded_to_zero(values, bits);
  return double{values.low} <= zero && double{values.high} >= -zero;
}

/// Whether a bound keeps the group's divisors away from 0 that codes of so many bits round to 0, as that of
/// x / max(|x|, 1e-12): samples need not have come near it, but the roundings before may.
bool loses_bound(const Graph& measured, const CodePlan& plan, const CodeGroup& group, const Interval& values,
                 int bits) {
  const auto has_bound = [&](const Node& node) {
    const auto* unary = trait<Unary>(node);
    if (unary == nullptr || !plan.exact_values.divisors.contains(node.name)) return false;
    const double of_zero = unary->function(node)(0);
    return of_zero > 0 && of_zero <= rounded_to_zero(values, bits);
  };
  return has_bound(measured.node(group.root)) || std::ranges::any_of(group.clamps, [&](size_t position) {
           return has_bound(measured.nodes()[position]);
         });
}

/// Adds what the group's rounding of these values to 0 would spoil.
void add_vanishing(const Graph& measured, const CodePlan& plan, const CodeGroup& group,
                   const std::vector<const Node*>& readers, const Interval& range, int bits,
                   VanishingValues& found) {
  bool is_spoilt = plan.exact_values.bare.contains(group.root);
  for (const Node* reader : readers) {
    if (!has_pole(*reader) && !may_give_zero(*reader, range, bits)) continue;
    found.nodes.insert(reader->name);
    is_spoilt = true;
  }
  if (!is_spoilt) return;
  const Node& root = measured.node(group.root);
  found.unrounded.insert(group.root);
  if (computes_by_element(root)) found.nodes.insert(group.root);
  for (const size_t clamp : group.clamps) {
    const std::string& name = measured.nodes()[clamp].name;
    if (plan.exact_values.divisors.contains(name)) found.nodes.insert(name);
  }
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

VanishingValues vanishing_values(const Graph& measured, const CodePlan& plan, int bits,
                                 const std::string& where) {
  VanishingValues found;
  const auto& divisors = plan.exact_values.divisors;
  for (const CodeGroup& group : plan.groups) {
    std::vector<const Node*> readers;
    for (const CodeRead& read : group.reads) {
      const Node& reader = measured.nodes()[read.node];
      const bool multiplies_values = trait<MatrixProduct>(reader) != nullptr;
      const bool divides = has_pole(reader) || divisors.contains(reader.name);
      if ((computes_by_element(reader) || multiplies_values) && divides) readers.push_back(&reader);
    }
    if (readers.empty() && !plan.exact_values.bare.contains(group.root)) continue;
    const std::optional<Interval> range = measured_distribution(measured, group, where).range;
    if (range && (may_be_zero(*range, bits) || loses_bound(measured, plan, group, *range, bits)))
      add_vanishing(measured, plan, group, readers, *range, bits, found);
  }
  return found;
}

}  // namespace detent

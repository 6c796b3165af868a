#include <fmt/format.h>

#include <cmath>

#include "detent/engine/pair_table.h"
#include "detent/engine/plan/plan_nodes.h"

namespace detent {
namespace {

/// The layout of an operand that lies channels last and is not repeated; else rows.
Layout layout_of_pairs(PlanBuilder& plan, const std::string& result, std::span<const size_t> operands) {
  for (const size_t operand : operands) {
    const Place& place = plan.place(operand);
    if (place.has_positions() && place.shape == plan.shape(result)) return Layout::kChannelsLast;
  }
  return Layout::kRows;
}

}  // namespace

bool plan_pairs(PlanBuilder& plan, const ProgramWeights& weights, const ReferenceStep& step,
                const std::string& result) {
  const auto* form = step.form ? std::get_if<PairForm>(&*step.form) : nullptr;
  if (form == nullptr || !pairs_bytes(*form)) return false;
  const Node& node = *step.node;
  const std::string names[] = {value_name(node.inputs[0]), value_name(node.inputs[1])};
  const CodeType types[] = {form->a, form->b};
  size_t operands[2];
  for (size_t i = 0; i < 2; ++i) operands[i] = plan.place_of(names[i], types[i], std::nullopt, node);
  const Layout layout = layout_of_pairs(plan, result, operands);
  for (size_t i = 0; i < 2; ++i) {
    if (plan.shape(names[i]).size() == plan.shape(result).size())
      operands[i] = plan.place_of(names[i], types[i], layout, node);
  }
  const auto table = weights.pair_tables.find(node.name);
  BytePairs pairs;
  const char* kernel = "pairs by table,";
  if (table != weights.pair_tables.end()) {
    pairs.table = table->second;
  } else if (form->operation == PairOperation::kMul) {
    pairs.product = byte_product(*form);
    kernel = "multiplication";
  } else {
    pairs.addition = byte_addition(*form);
    kernel = "addition";
  }
  const size_t to = plan.add_place({.shape = plan.shape(result), .layout = layout, .type = form->output});
  for (const size_t operand : operands) plan.read(operand);
  plan.add(pairs_step(plan.kernels(), std::move(pairs), operands[0], operands[1], to), node.name,
           fmt::format("{} {}", kernel, plan.kernels().name));
  plan.set_place(result, to);
  return true;
}

}  // namespace detent

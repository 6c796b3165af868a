#include <algorithm>
#include <functional>
#include <map>
#include <string_view>
#include <type_traits>

#include "detent/engine/plan/plan_nodes.h"
#include "detent/inference/float_node.h"

// Results of comparisons are no floats and lie in no place: where they become floats at once, a step computes
// these.

namespace detent {
namespace {

/// Calls `visit` with a step; loops are compiled for those of 0 and 1.
template <class Visit>
void visit_pair_step(int64_t step, const Visit& visit) {
  if (step == 0) return visit(std::integral_constant<int64_t, 0>());
  if (step == 1) return visit(std::integral_constant<int64_t, 1>());
  visit(step);
}

/// 1 where elements compare so, else 0.
template <class Compare>
void count_pairs(const float* a, int64_t a_step, const float* b, int64_t b_step, int64_t count,
                 float* results) {
  visit_pair_step(a_step, [&](auto of_a) {
    visit_pair_step(b_step, [&](auto of_b) {
      for (int64_t i = 0; i < count; ++i) results[i] = Compare()(a[i * of_a], b[i * of_b]) ? 1.0F : 0.0F;
    });
  });
}

/// nullptr of other operators.
PairFunction counting(std::string_view op) {
  static const std::map<std::string_view, PairFunction> functions = {
      {"eq", count_pairs<std::equal_to<float>>},
      {"lt", count_pairs<std::less<float>>},
      {"le", count_pairs<std::less_equal<float>>},
      {"gt", count_pairs<std::greater<float>>},
      {"ge", count_pairs<std::greater_equal<float>>}};
  const auto found = functions.find(op);
  return found == functions.end() ? nullptr : found->second;
}

/// Whether a node gives another element type to what it takes.
bool converts(const Node& node) {
  const FloatOperator* const found = find_float_operator(node.op);
  return found != nullptr && found->codes == CodeOperator::kConversion;
}

bool computes_without_codes(const ReferenceStep& step) {
  const auto is_set = [](const std::optional<CodeType>& type) { return type.has_value(); };
  return step.role == OperatorRole::kComputes && step.rounds == nullptr && !step.form &&
         std::ranges::none_of(step.inputs, is_set) && std::ranges::none_of(step.outputs, is_set);
}

/// Whether it is float32, or a number that float32 holds.
bool compares_as_float(const NodeInput& input, const ValueTypes& values) {
  if (!input.is_constant()) {
    const Operand& operand = values.at(value_name(input));
    return operand.is_tensor() && operand.dtype == DType::kFloat32;
  }
  double scratch = 0;
  const double* const number = input.constant.number(scratch);
  return number != nullptr && static_cast<double>(static_cast<float>(*number)) == *number;
}

}  // namespace

std::map<size_t, size_t> counted_comparisons(std::span<const ReferenceStep> steps, const ValueTypes& values,
                                             const ShownValues& shown) {
  const ValueReaders readers = readers_of(steps);
  std::map<size_t, size_t> counted;
  for (size_t i = 0; i < steps.size(); ++i) {
    const Node& node = *steps[i].node;
    if (counting(node.op) == nullptr || !computes_without_codes(steps[i])) continue;
    const auto compares = [&](const NodeInput& input) { return compares_as_float(input, values); };
    const std::string value = value_name(node.name);
    const auto reading = readers.find(value);
    if (!std::ranges::all_of(node.inputs, compares) || shown.needs(value) || reading == readers.end() ||
        reading->second.size() != 1)
      continue;
    const ReferenceStep& reader = steps[reading->second.front()];
    const bool is_conversion = converts(*reader.node) && computes_without_codes(reader) &&
                               values.at(value_name(reader.node->name)).dtype == DType::kFloat32;
    if (is_conversion) counted.emplace(reading->second.front(), i);
  }
  return counted;
}

bool plan_counted(PlanBuilder& plan, const ReferenceStep& comparison, const ReferenceStep& conversion) {
  const std::string result = value_name(conversion.node->name);
  return plan.is_placeable(result) &&
         plan_value_pairs(plan, comparison, counting(comparison.node->op), result);
}

}  // namespace detent

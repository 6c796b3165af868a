#include <utility>

#include "detent/core/error.h"
#include "detent/engine/plan/plan_nodes.h"
#include "detent/graph/operators.h"
#include "detent/inference/float_node.h"

// Networks that give, take or compute 8-bit integers write how these stand for floats; inside of a plan they
// are codes.

namespace detent {
namespace {

std::optional<double> constant_number(const NodeInput& input) {
  double scratch = 0;
  const double* const number = input.is_constant() ? input.constant.number(scratch) : nullptr;
  return number == nullptr ? std::nullopt : std::optional(*number);
}

/// Codes whose values have themselves as codes: no scale is so small or large that these are not exact.
std::optional<CodeType> integer_codes(const Node& node, DType dtype) {
  constexpr float kLeastScale = 1e-30F;
  constexpr float kMostScale = 1e30F;
  if (dtype != DType::kUInt8 && dtype != DType::kInt8) return std::nullopt;
  const bool has_zero = node.inputs.size() > 2 && !node.inputs[2].is_absent();
  const auto scale = constant_number(node.inputs[1]);
  const auto zero = has_zero ? constant_number(node.inputs[2]) : std::optional(0.0);
  if (!scale || !zero) return std::nullopt;
  const auto low = dtype == DType::kInt8 ? int32_t{INT8_MIN} : 0;
  const auto high = dtype == DType::kInt8 ? int32_t{INT8_MAX} : int32_t{UINT8_MAX};
  if (!(*zero >= low && *zero <= high)) return std::nullopt;
  const CodeType type{.scale = static_cast<float>(*scale),
                      .zero_point = static_cast<int32_t>(*zero),
                      .low = low,
                      .high = high};
  if (!(type.scale > kLeastScale && type.scale < kMostScale)) return std::nullopt;
  return type;
}

/// The value has these codes, which a step brings to a place where it is read.
bool plan_values_of_integers(PlanBuilder& plan, const ReferenceStep& step, const std::string& result) {
  const std::string input = value_name(step.node->inputs[0]);
  const auto type = integer_codes(*step.node, plan.types().at(input).dtype);
  if (!type || (step.outputs[0] && step.outputs[0] != type)) return false;
  PlannedValue value = plan.new_value(result);
  value.type = type;
  value.flow = plan.flow_of(input);
  value.quantizer = step.node;
  value.flow_has_integers = true;
  plan.add_value(result, std::move(value));
  return true;
}

bool plan_integers_of_codes(PlanBuilder& plan, const ReferenceStep& step, const std::string& result) {
  const std::string input = value_name(step.node->inputs[0]);
  const auto type = integer_codes(*step.node, dtype_of_name(choice_attribute(*step.node, "dtype")));
  const std::optional<CodeType>& own = step.inputs[0] ? step.inputs[0] : plan.value(input).type;
  if (!type || !own || !fits_bytes(*own) || own->is_sign || !plan.is_placeable(input)) return false;
  if (step.inputs[0] && step.inputs[0] != type) return false;
  const size_t from = plan.place_of(input, *type, std::nullopt, *step.node);
  PlannedValue value = plan.new_value(result);
  value.flow = plan.new_flow();
  value.flow_is_ready = true;
  plan.note_flow(value.flow);
  plan.add(integers_of_bytes(plan.read(from), value.flow), step.node->name, "row-major copy");
  plan.add_value(result, std::move(value));
  return true;
}

}  // namespace

bool plan_integer_codes(PlanBuilder& plan, const ReferenceStep& step, const std::string& result) {
  const FloatOperator* const found =
      step.role == OperatorRole::kComputes ? find_float_operator(step.node->op) : nullptr;
  if (found == nullptr || step.node->inputs.empty() || step.node->inputs[0].is_constant()) return false;
  if (found->codes == CodeOperator::kValues)
    return plan.is_placeable(result) && plan_values_of_integers(plan, step, result);
  return found->codes == CodeOperator::kQuantization && plan_integers_of_codes(plan, step, result);
}

}  // namespace detent

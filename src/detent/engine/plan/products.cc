#include <fmt/format.h>

#include "detent/engine/plan/plan_nodes.h"
#include "detent/engine/program_plan.h"
#include "detent/graph/traits.h"

namespace detent {
namespace {

/// Where the codes of an operand lie: what only moves elements need not move them first, where the elements
/// of a row stay adjacent or need not be.
MatrixOperand matrix_operand(PlanBuilder& plan, const std::string& name, const std::optional<CodeType>& type,
                             bool rows_are_adjacent, const Node& reader) {
  const PlannedValue& value = plan.value(name);
  const bool takes_move = value.move && value.places.empty() && value.move->type == type &&
                          (!rows_are_adjacent || value.move->view.strides.back() == 1);
  if (!takes_move)
    return {plan.operand(name, type, Layout::kRows, reader), StridedView::of(plan.shape(name))};
  const PendingMove move = *value.move;
  return {plan.operand(move.from, type, Layout::kRows, *move.node), move.view};
}

/// The same of values, or those of codes.
MatrixOperand matrix_of_values(PlanBuilder& plan, const ReferenceStep& step, size_t index) {
  const std::string name = value_name(step.node->inputs[index]);
  const std::optional<CodeType>& type = step.inputs[index];
  if (type && !is_wide(*type))
    return {operand_values(plan, step, index, Layout::kRows), StridedView::of(plan.shape(name))};
  return matrix_operand(plan, name, type, false, *step.node);
}

double products_of(const PlanBuilder& plan, const std::string& a, const std::string& result) {
  return static_cast<double>(element_count(plan.shape(result))) * static_cast<double>(plan.shape(a).back());
}

}  // namespace

bool plan_float_product(PlanBuilder& plan, const ReferenceStep& step, const std::string& result) {
  const Node& node = *step.node;
  if (trait<MatrixProduct>(node) == nullptr || node.inputs.size() != 2) return false;
  for (size_t i = 0; i < 2; ++i) {
    const NodeInput& input = node.inputs[i];
    if (input.is_constant() || !has_operand_values(plan, step, i) || plan.shape(value_name(input)).size() < 2)
      return false;
  }
  const std::string a = value_name(node.inputs[0]);
  FloatProductLayer layer = turned({.a = matrix_of_values(plan, step, 0),
                                    .b = matrix_of_values(plan, step, 1),
                                    .scratch = std::nullopt,
                                    .output = 0});
  if (const int64_t bytes = float_product_scratch_bytes(layer.b.view); bytes > 0)
    layer.scratch = plan.add_place({.shape = {bytes}, .layout = Layout::kRows, .type = {}});
  layer.output = plan.add_values_place(result, Layout::kRows);
  const size_t output = layer.output;
  plan.read(layer.a.place);
  plan.read(layer.b.place);
  plan.add(float_product_step(std::move(layer)), node.name, "product float").products =
      products_of(plan, a, result);
  set_values(plan, step, output, result);
  return true;
}

bool plan_product(PlanBuilder& plan, const ReferenceStep& step, const std::string& result) {
  const auto* form = step.form ? std::get_if<ProductForm>(&*step.form) : nullptr;
  if (form == nullptr) return false;
  const Node& node = *step.node;
  const std::string a = value_name(node.inputs[0]);
  const std::string b = value_name(node.inputs[1]);
  if (!why_not_multiplied(*form, plan.shape(a), plan.shape(b)).empty()) return false;
  MatrixProductLayer layer{
      .kernels = &plan.kernels(), .form = *form, .a = {}, .b = {}, .scratch = 0, .output = 0};
  layer.a = matrix_operand(plan, a, form->a, true, node);
  layer.b = matrix_operand(plan, b, form->b, false, node);
  layer.scratch =
      plan.add_place({.shape = {product_scratch_bytes(layer.b.view)}, .layout = Layout::kRows, .type = {}});
  layer.output = plan.add_place({.shape = plan.shape(result),
                                 .layout = Layout::kRows,
                                 .type = form->output.value_or(CodeType()),
                                 .is_values = !form->output.has_value()});
  plan.read(layer.a.place);
  plan.read(layer.b.place);
  const size_t output = layer.output;
  plan.add(product_step(std::move(layer)), node.name, fmt::format("product {}", plan.kernels().name))
      .products = products_of(plan, a, result);
  plan.set_place(result, output);
  return true;
}

}  // namespace detent

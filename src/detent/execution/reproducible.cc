#include "detent/execution/reproducible.h"

#include <fmt/format.h>

#include <algorithm>

#include "detent/execution/torch_tensor.h"
#include "detent/graph/operators.h"

namespace detent {
namespace {

FloatFlow float_flow(const Flow& flow) {
  if (const auto* tensor = std::get_if<at::Tensor>(&flow)) return {from_torch(*tensor)};
  if (const auto* integer = std::get_if<int64_t>(&flow)) return {{}, Value(*integer)};
  if (const auto* real = std::get_if<double>(&flow)) return {{}, Value(*real)};
  return {{}, {}, true};
}

}  // namespace

const FloatOperator* reproducible_operator(std::string_view op) {
  const FloatOperator* const found = find_float_operator(op);
  return found == nullptr || found->is_exact ? nullptr : found;
}

bool takes_reproducible(const Evaluation& evaluation) {
  if (!evaluation.in_order) return false;
  const auto& indices = find_operator(evaluation.node.op).index_operands;
  for (size_t i = 0; i < evaluation.inputs.size(); ++i) {
    const auto* tensor = std::get_if<at::Tensor>(&evaluation.inputs[i]);
    if (tensor == nullptr || tensor->scalar_type() == at::kFloat) continue;
    if (std::ranges::find(indices, fmt::format("data_in_{}", i)) == indices.end()) return false;
  }
  return true;
}

std::vector<Flow> reproducible_results(const FloatOperator& by, const Evaluation& evaluation) {
  std::vector<FloatFlow> inputs;
  for (const Flow& input : evaluation.inputs) inputs.push_back(float_flow(input));
  NamedTensors parameters;
  for (const auto& [name, tensor] : evaluation.parameters) parameters.emplace_back(name, from_torch(tensor));
  std::vector<Flow> results;
  for (const Tensor& result : by.results({evaluation.node, inputs, parameters}))
    results.emplace_back(to_torch(result));
  return results;
}

}  // namespace detent

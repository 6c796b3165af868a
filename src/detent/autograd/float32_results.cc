#include "detent/autograd/float32_results.h"

#include "detent/autograd/torch_tensor.h"
#include "detent/core/error.h"
#include "detent/inference/float_node.h"
#include "detent/inference/float_nodes.h"

namespace detent {
namespace {

FloatFlow float_flow(const Flow& flow) {
  if (const auto* tensor = std::get_if<at::Tensor>(&flow)) return {from_torch(*tensor)};
  if (const auto* integer = std::get_if<int64_t>(&flow)) return {{}, Value(*integer)};
  if (const auto* real = std::get_if<double>(&flow)) return {{}, Value(*real)};
  return {{}, {}, true};
}

}  // namespace

std::vector<Flow> float32_results(const Evaluation& evaluation) {
  const FloatOperator* const found = find_float_operator(evaluation.node.op);
  DETENT_CHECK(found != nullptr, "operator {}", evaluation.node.op);
  std::vector<FloatFlow> inputs;
  for (const Flow& input : evaluation.inputs) inputs.push_back(float_flow(input));
  NamedTensors parameters;
  for (const auto& [name, tensor] : evaluation.parameters)
    parameters.emplace_back(name, without_subnormals(evaluation.node, from_torch(tensor)));
  std::vector<Flow> results;
  for (const Tensor& result : found->results({evaluation.node, inputs, parameters}))
    results.emplace_back(to_torch(result));
  return results;
}

}  // namespace detent

#include "detent/execution/evaluators/evaluator.h"

#include <map>

#include "detent/core/error.h"

namespace detent {

const at::Tensor& Evaluation::tensor(size_t index) const {
  DETENT_CHECK(index < inputs.size() && std::holds_alternative<at::Tensor>(inputs[index]),
               "node {}: input {} is no tensor", node.name, index);
  return std::get<at::Tensor>(inputs[index]);
}

int64_t Evaluation::integer(size_t index) const {
  DETENT_CHECK(index < inputs.size() && std::holds_alternative<int64_t>(inputs[index]),
               "node {}: input {} is no integer", node.name, index);
  return std::get<int64_t>(inputs[index]);
}

at::Tensor Evaluation::parameter(std::string_view name) const {
  for (const auto& [key, tensor] : parameters) {
    if (key == name) return tensor;
  }
  return {};
}

Evaluator find_evaluator(std::string_view op) {
  static const std::map<std::string_view, Evaluator> evaluators = [] {
    std::map<std::string_view, Evaluator> map;
    for (const auto& list : {activation_evaluators(), layer_evaluators(), normalization_evaluators(),
                             function_evaluators(), shape_evaluators()}) {
      for (const auto& [name, evaluator] : list) {
        DETENT_CHECK(map.emplace(name, evaluator).second, "two evaluators for {}", name);
      }
    }
    return map;
  }();
  const auto it = evaluators.find(op);
  DETENT_CHECK(it != evaluators.end(), "operator {} has no evaluator", op);
  return it->second;
}

}  // namespace detent

#include "detent/execution/evaluators/evaluator.h"

#include <ATen/ops/scalar_tensor.h>

#include <map>
#include <stdexcept>

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

std::vector<int64_t> Evaluation::integers(size_t index) const {
  if (std::holds_alternative<int64_t>(inputs[index])) return {integer(index)};
  const at::Tensor list = tensor(index).to(at::kLong).contiguous();
  return {list.data_ptr<int64_t>(), list.data_ptr<int64_t>() + list.numel()};
}

at::Tensor Evaluation::as_tensor(size_t index) const {
  if (const auto* given = std::get_if<at::Tensor>(&inputs[index])) return *given;
  at::ScalarType dtype = std::holds_alternative<int64_t>(inputs[index]) ? at::kLong : at::kFloat;
  for (const Flow& flow : inputs) {
    const auto* other = std::get_if<at::Tensor>(&flow);
    if (other == nullptr || other->scalar_type() == at::kBool) continue;
    dtype = other->scalar_type();
    break;
  }
  const auto* whole = std::get_if<int64_t>(&inputs[index]);
  DETENT_CHECK(whole != nullptr || std::holds_alternative<double>(inputs[index]),
               "node {}: input {} is absent", node.name, index);
  const at::Scalar number =
      whole != nullptr ? at::Scalar(*whole) : at::Scalar(std::get<double>(inputs[index]));
  try {
    return at::scalar_tensor(number, dtype);
  } catch (const std::runtime_error&) {  // c10's, of what overflows
    fail("node \"{}\": input {} is {}, which a tensor of {} does not hold", node.name, index,
         number.toDouble(), c10::toString(dtype));
  }
}

bool Evaluation::may_overwrite(size_t index) const {
  const auto* held = std::get_if<at::Tensor>(&inputs[index]);
  return !training && held != nullptr && held->use_count() == 1 && held->storage().use_count() == 1 &&
         held->is_non_overlapping_and_dense();
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
    for (const auto& list :
         {activation_evaluators(), layer_evaluators(), normalization_evaluators(), function_evaluators(),
          shape_evaluators(), math_evaluators(), elementwise_evaluators(), reduction_evaluators(),
          gather_evaluators(), dynamic_shape_evaluators(), resize_evaluators(), recurrent_evaluators(),
          detection_evaluators(), quantized_evaluators(), table_evaluators(), lutnet_evaluators()}) {
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

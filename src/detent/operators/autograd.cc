#include "detent/operators/autograd.h"

#include <map>

#include <ATen/ops/empty.h>

#include "detent/autograd/torch_tensor.h"
#include "detent/core/convert.h"
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

int64_t Evaluation::only_integer(size_t index) const {
  const std::vector<int64_t> list = integers(index);
  if (list.size() != 1)
    fail("node \"{}\" ({}): input {} lists {} integers, expected one", node.name, node.op, index,
         list.size());
  return list[0];
}

at::Tensor Evaluation::as_tensor(size_t index) const {
  if (const auto* given = std::get_if<at::Tensor>(&inputs[index])) return *given;
  const auto* whole = std::get_if<int64_t>(&inputs[index]);
  DETENT_CHECK(whole != nullptr || std::holds_alternative<double>(inputs[index]),
               "node {}: input {} is absent", node.name, index);
  DType dtype = whole != nullptr ? DType::kInt64 : DType::kFloat32;
  for (const Flow& flow : inputs) {
    const auto* other = std::get_if<at::Tensor>(&flow);
    if (other == nullptr || other->scalar_type() == at::kBool) continue;
    dtype = dtype_of(*other);
    break;
  }
  const Value number = whole != nullptr ? Value(*whole) : Value(std::get<double>(inputs[index]));
  const std::optional<Tensor> result = tensor_of_number(number, dtype);
  if (!result) {
    fail("node \"{}\": input {} is {}, which a tensor of {} does not hold", node.name, index,
         value_text(number), dtype_name(dtype));
  }
  return to_torch(*result);
}

at::Tensor Evaluation::parameter(std::string_view name) const {
  for (const auto& [key, tensor] : parameters) {
    if (key == name) return tensor;
  }
  return {};
}

at::Tensor converted(const at::Tensor& tensor, at::ScalarType dtype) {
  const bool loses = tensor.is_floating_point() && c10::isIntegralType(dtype, /*includeBool=*/false);
  if (!loses) return tensor.to(dtype);
  const DType to = dtype_of(at::empty({0}, dtype));
  return to_torch(to_dtype(from_torch(tensor), to));
}

Evaluator find_evaluator(std::string_view op) {
  static const std::map<std::string_view, Evaluator> evaluators = [] {
    std::map<std::string_view, Evaluator> map;
    for (const auto& list :
         {activation_evaluators(), layer_evaluators(), normalization_evaluators(), function_evaluators(),
          pooling_evaluators(), shape_evaluators(), element_function_evaluators(), elementwise_evaluators(),
          reduction_evaluators(), gather_evaluators(), dynamic_shape_evaluators(), resize_evaluators(),
          recurrent_evaluators(), detection_evaluators(), quantized_evaluators(), table_evaluators(),
          control_flow_evaluators()}) {
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

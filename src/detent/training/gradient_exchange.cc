#include "detent/training/gradient_exchange.h"

#include <algorithm>
#include <span>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>

namespace detent {
namespace {

std::span<float> values_of(const at::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<size_t>(tensor.numel())};
}

}  // namespace

// Behind the gradients of all parameters stands, for each, how many workers have one.
void sum_gradients(const std::vector<at::Tensor>& parameters, ProcessGroup& group) {
  if (group.size() == 1) return;
  size_t count = parameters.size();
  for (const at::Tensor& parameter : parameters) count += static_cast<size_t>(parameter.numel());
  std::vector<float> sums(count);
  auto next = sums.begin();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& gradient = parameters[i].grad();
    if (gradient.defined()) {
      std::ranges::copy(values_of(gradient.contiguous()), next);
      sums[count - parameters.size() + i] = 1;
    }
    next += parameters[i].numel();
  }
  group.all_reduce_sum(sums);
  next = sums.begin();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const int64_t elements = parameters[i].numel();
    if (sums[count - parameters.size() + i] > 0) {
      at::Tensor gradient = at::empty(parameters[i].sizes(), parameters[i].options());
      std::copy(next, next + elements, values_of(gradient).begin());
      parameters[i].mutable_grad() = gradient;
    }
    next += elements;
  }
}

void average_running_statistics(Graph& graph, ProcessGroup& group) {
  if (group.size() == 1) return;
  for (Node& node : graph.nodes()) {
    for (auto& [name, parameter] : node.parameters) {
      if (parameter.trainable || parameter.tensor.dtype() != DType::kFloat32) continue;
      const std::span<float> values = parameter.tensor.values<float>();
      group.all_reduce_sum(values);
      for (float& value : values) value /= static_cast<float>(group.size());
    }
  }
}

}  // namespace detent

#include "detent/training/gradient_exchange.h"

#include <algorithm>
#include <cstring>
#include <span>

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>

#include "detent/graph/traits.h"

namespace detent {
namespace {

std::span<float> values_of(const at::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<size_t>(tensor.numel())};
}

}  // namespace

// After the gradients of all parameters stands, for each, how many workers have one; then the others.
void sum_gradients(std::span<const NamedParameter> parameters, std::span<float> others, ProcessGroup& group) {
  if (group.size() == 1) return;
  size_t elements = 0;
  for (const auto& [name, parameter] : parameters) elements += static_cast<size_t>(parameter.numel());
  std::vector<float> sums(elements + parameters.size() + others.size());
  const auto counts = sums.begin() + static_cast<std::ptrdiff_t>(elements);
  auto next = sums.begin();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& gradient = parameters[i].second.grad();
    if (gradient.defined()) {
      std::ranges::copy(values_of(gradient.contiguous()), next);
      counts[static_cast<std::ptrdiff_t>(i)] = 1;
    }
    next += parameters[i].second.numel();
  }
  std::ranges::copy(others, sums.end() - static_cast<std::ptrdiff_t>(others.size()));
  group.all_reduce_sum(sums);
  next = sums.begin();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const at::Tensor& parameter = parameters[i].second;
    if (counts[static_cast<std::ptrdiff_t>(i)] > 0) {
      at::Tensor gradient = at::empty(parameter.sizes(), parameter.options());
      std::copy(next, next + parameter.numel(), values_of(gradient).begin());
      parameter.mutable_grad() = gradient;
    }
    next += parameter.numel();
  }
  std::copy(sums.end() - static_cast<std::ptrdiff_t>(others.size()), sums.end(), others.begin());
}

// Each worker's shape, and its values after it.
at::Tensor gather_samples(const at::Tensor& own, ProcessGroup& group) {
  const at::Tensor dense = own.contiguous();
  std::vector<int64_t> header = {dense.dim()};
  header.insert(header.end(), dense.sizes().begin(), dense.sizes().end());
  const auto shape_bytes = std::as_bytes(std::span(header));
  const auto value_bytes = std::as_bytes(std::span(values_of(dense)));
  std::vector<std::byte> bytes(shape_bytes.begin(), shape_bytes.end());
  bytes.insert(bytes.end(), value_bytes.begin(), value_bytes.end());
  std::vector<at::Tensor> shares;
  for (const std::vector<std::byte>& part : group.all_gather(bytes)) {
    int64_t dims = 0;
    std::memcpy(&dims, part.data(), sizeof(dims));
    std::vector<int64_t> shape(static_cast<size_t>(dims));
    std::memcpy(shape.data(), part.data() + sizeof(dims), shape.size() * sizeof(int64_t));
    const at::Tensor share = at::empty(shape, at::kFloat);
    if (share.numel() == 0) continue;
    std::memcpy(share.data_ptr<float>(), part.data() + (shape.size() + 1) * sizeof(int64_t),
                static_cast<size_t>(share.numel()) * sizeof(float));
    shares.push_back(share);
  }
  return shares.empty() ? dense : at::cat(shares);
}

void average_running_statistics(Graph& graph, ProcessGroup& group) {
  if (group.size() == 1) return;
  for (Node& node : graph.nodes()) {
    if (is_batch_norm(node) || node.find_parameter("running_mean") == nullptr) continue;
    for (auto& [name, parameter] : node.parameters) {
      if (parameter->trainable || parameter->tensor.dtype() != DType::kFloat32) continue;
      const std::span<float> values = parameter->tensor.values<float>();
      group.all_reduce_sum(values);
      for (float& value : values) value /= static_cast<float>(group.size());
    }
  }
}

}  // namespace detent

#include "detent/graph/connections.h"

#include <algorithm>

#include "detent/graph/traits.h"

namespace detent {

Connections::Connections(const Tensor& weight) {
  const auto values = weight.values<float>();
  const auto outputs = static_cast<size_t>(weight.dim(0));
  const size_t row = outputs == 0 ? 0 : values.size() / outputs;
  for (size_t output = 0; output < outputs; ++output) {
    for (size_t i = 0; i < row; ++i) {
      if (const float value = values[output * row + i]; value != 0)
        all_.push_back({static_cast<int64_t>(i), value});
    }
    ends_.push_back(all_.size());
  }
}

int64_t Connections::most() const {
  int64_t most = 0;
  for (int64_t output = 0; output < outputs(); ++output) most = std::max(most, std::ssize(of(output)));
  return most;
}

namespace {

/// Stops at the first output that has more.
bool has_few(const Tensor& weight) {
  const auto values = weight.values<float>();
  if (weight.numel() == 0) return false;
  const size_t row = values.size() / static_cast<size_t>(weight.dim(0));
  for (size_t begin = 0; begin < values.size(); begin += row) {
    const auto of_output = values.subspan(begin, row);
    const auto zeros = std::count(of_output.begin(), of_output.end(), 0.0F);
    if (std::ssize(of_output) - zeros > kMostOrderedConnections) return false;
  }
  return true;
}

}  // namespace

std::optional<Connections> ordered_connections(const Node& layer, const Tensor& weight) {
  const auto* sum = trait<WeightedSum>(layer);
  if (sum == nullptr || sum->transposed || sum->spatial_dims > 2) return std::nullopt;
  if (weight.dtype() != DType::kFloat32 || !has_few(weight)) return std::nullopt;
  Connections connections(weight);
  const bool inputs_alone =
      layer.find_quantizer("data_in_0") != nullptr && layer.find_quantizer("weight") == nullptr;
  const bool is_sparse = 2 * connections.total() <= weight.numel();
  return inputs_alone || is_sparse ? std::optional(std::move(connections)) : std::nullopt;
}

}  // namespace detent

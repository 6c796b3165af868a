#include "detent/passes/transform/graph_edits.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "detent/core/name_pattern.h"
#include "detent/core/text.h"
#include "detent/passes/analysis/network_cost.h"

namespace detent {
namespace {

constexpr int64_t kFloatBytes = 4;

struct FloatWeight {
  std::string text;
  int64_t bytes;
};

/// Vectors, as biases and the factors of norms are, take next to nothing.
std::vector<FloatWeight> float_weights(const Graph& graph) {
  std::vector<FloatWeight> weights;
  std::set<const Parameter*> seen;
  for (const Node& node : graph.nodes()) {
    for (const auto& [name, parameter] : node.parameters) {
      const Tensor& tensor = parameter->tensor;
      const int64_t largest = tensor.rank() == 0 ? 0 : *std::ranges::max_element(tensor.shape());
      const bool is_vector = tensor.numel() == largest;
      if (is_vector || tensor.dtype() != DType::kFloat32 || node.find_quantizer(name) != nullptr) continue;
      if (!seen.insert(&*parameter).second) continue;
      const int64_t bytes = tensor.numel() * kFloatBytes;
      weights.push_back({fmt::format("{} ({}, {} bytes)", node.parameter_key(name), node.op, bytes), bytes});
    }
  }
  std::ranges::stable_sort(weights, std::ranges::greater(), &FloatWeight::bytes);
  return weights;
}

}  // namespace

std::string float_weights_text(const Graph& graph) {
  constexpr size_t kColumns = 80;
  constexpr int kPercent = 100;
  const std::vector<FloatWeight> weights = float_weights(graph);
  if (weights.empty()) return "";
  std::vector<std::string> names;
  int64_t bytes = 0;
  for (const FloatWeight& weight : weights) {
    names.push_back(weight.text);
    bytes += weight.bytes;
  }
  const int64_t all = std::max<int64_t>(storage_bits(graph).weight_bytes(), 1);
  return wrapped_text(fmt::format("weights in float32: {} of {} bytes ({} %): {}", bytes, all,
                                  kPercent * bytes / all, listed_names(names)),
                      2, kColumns);
}

}  // namespace detent

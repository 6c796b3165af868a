#include "detent/evaluation/first_non_finite.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace detent {
namespace {

bool is_finite(const Tensor& tensor) {
  return std::ranges::all_of(tensor.values<float>(), [](float x) { return std::isfinite(x); });
}

}  // namespace

void FirstNonFinite::see(const Node& node, const Tensor& result) {
  if (!description_.empty() || is_finite(result)) return;
  description_ = fmt::format("the first node whose output is not finite is \"{}\" ({})", node.name, node.op);
  for (const auto& [name, parameter] : node.all_parameters()) {
    if (parameter->tensor.dtype() != DType::kFloat32 || is_finite(parameter->tensor)) continue;
    description_ += fmt::format(", whose {} is not finite either", name);
    return;
  }
}

std::string FirstNonFinite::description() const {
  return description_.empty() ? "the outputs of all nodes are finite when it is computed again"
                              : description_;
}

}  // namespace detent

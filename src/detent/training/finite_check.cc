#include "detent/training/finite_check.h"

#include <ATen/ops/isfinite.h>

#include "detent/execution/torch_tensor.h"

namespace detent {
namespace {

bool is_finite(const at::Tensor& tensor) { return at::isfinite(tensor).all().item<bool>(); }

}  // namespace

std::string describe_first_non_finite(Interpreter& interpreter, const at::Tensor& inputs) {
  std::string description;
  const TorchObserver observe = [&](const Node& node, std::string_view operand, const at::Tensor& value) {
    if (!description.empty() || operand != "data_out_0" || is_finite(value)) return;
    description = fmt::format("the first node whose output is not finite is \"{}\" ({})", node.name, node.op);
    for (const auto& [name, parameter] : node.parameters) {
      if (parameter.tensor.dtype() != DType::kFloat32 || is_finite(to_torch(parameter.tensor))) continue;
      description += fmt::format(", whose {} is not finite either", name);
      return;
    }
  };
  interpreter.run({inputs}, observe, ObservedValues::kBeforeQuantization);
  return description.empty() ? "the outputs of all nodes are finite when it is computed again" : description;
}

}  // namespace detent

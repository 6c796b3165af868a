#include "detent/training/finite_check.h"

#include <ATen/ops/isfinite.h>

#include "detent/execution/torch_tensor.h"

namespace detent {
namespace {

bool is_finite(const at::Tensor& tensor) { return at::isfinite(tensor).all().item<bool>(); }

/// Looks at node after node as they are run.
class FirstNonFinite {
 public:
  void see(const Node& node, std::string_view operand, const at::Tensor& value) {
    if (!description_.empty() || operand != "data_out_0" || is_finite(value)) return;
    description_ =
        fmt::format("the first node whose output is not finite is \"{}\" ({})", node.name, node.op);
    for (const auto& [name, parameter] : node.all_parameters()) {
      if (parameter->tensor.dtype() != DType::kFloat32 || is_finite(to_torch(parameter->tensor))) continue;
      description_ += fmt::format(", whose {} is not finite either", name);
      return;
    }
  }
  std::string description() const {
    return description_.empty() ? "the outputs of all nodes are finite when it is computed again"
                                : description_;
  }

 private:
  std::string description_;
};

}  // namespace

std::string describe_first_non_finite(const Interpreter& interpreter, std::span<const Tensor> inputs) {
  FirstNonFinite first;
  const TorchObserver observe = [&](const Node& node, std::string_view operand, const at::Tensor& value) {
    first.see(node, operand, value);
  };
  interpreter.outputs(to_torch(inputs), observe, ObservedValues::kBeforeQuantization);
  return first.description();
}

}  // namespace detent

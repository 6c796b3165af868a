#include "detent/training/finite_check.h"

#include "detent/autograd/torch_tensor.h"
#include "detent/evaluation/evaluate.h"

namespace detent {

std::string describe_first_non_finite(const Interpreter& interpreter, std::span<const Tensor> inputs) {
  FirstNonFinite first;
  const TorchObserver observe = [&](const Node& node, std::string_view operand, const at::Tensor& value) {
    if (operand == "data_out_0") first.see(node, from_torch(value));
  };
  interpreter.outputs(to_torch(inputs), observe, ObservedValues::kBeforeQuantization);
  return first.description();
}

}  // namespace detent

#include "detent/autograd/fake_quantize.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include "detent/autograd/torch_tensor.h"
#include "detent/core/error.h"

namespace detent {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct FakeQuantize : torch::autograd::Function<FakeQuantize> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const QuantSpec& spec,
                            uint64_t seed) {
    const Tensor values = from_torch(input);
    if (spec.gradient == Gradient::kClipped) {
      context->save_for_backward({to_torch(clipped_ste_mask(spec, values)).view(input.sizes())});
    }
    const at::Tensor result = at::empty(values.shape(), input.options());
    Tensor output = from_torch(result);
    fake_quantize(spec, values, output, seed);
    return result;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor gradient = saved.empty() ? gradients[0] : gradients[0].mul(saved[0]);
    return {gradient, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor fake_quantize(const at::Tensor& input, const QuantSpec& spec, uint64_t seed) {
  DETENT_CHECK(input.scalar_type() == at::kFloat, "{} tensor", at::toString(input.scalar_type()));
  return FakeQuantize::apply(input, spec, seed);
}

}  // namespace detent

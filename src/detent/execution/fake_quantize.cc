#include "detent/execution/fake_quantize.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

#include "detent/core/error.h"
#include "detent/execution/torch_tensor.h"
#include "detent/formats/groups/group_parameters.h"
#include "detent/formats/groups/learned_scale.h"

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
    simulate(spec, values, output, seed);
    return result;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor gradient = saved.empty() ? gradients[0] : gradients[0].mul(saved[0]);
    return {gradient, at::Tensor(), at::Tensor()};
  }
};

struct LearnedScale : torch::autograd::Function<LearnedScale> {
  /// `scale` broadcasts against `input`.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& scale,
                            const QuantSpec& codes_of, double gradient_factor, uint64_t seed) {
    const at::Tensor scaled = input.div(scale);
    const Tensor values = from_torch(scaled);
    const at::Tensor codes = to_torch(simulate(codes_of, values, seed));
    const at::Tensor mask = to_torch(clipped_ste_mask(codes_of, values));
    context->save_for_backward({mask, codes.sub(scaled.mul(mask)).mul(gradient_factor)});
    context->saved_data["scale_shape"] = scale.sizes().vec();
    return codes.mul(scale);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor of_scale =
        gradients[0].mul(saved[1]).sum_to_size(context->saved_data["scale_shape"].toIntVector());
    return {gradients[0].mul(saved[0]), of_scale, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

/// [groups] in the place of every element of its group, of a tensor of `shape`.
at::Tensor spread_over_groups(const at::Tensor& scale, const QuantSpec& spec, const Shape& shape) {
  const Grouping grouping = make_grouping(spec, shape);
  Tensor groups(DType::kInt64, {grouping.elements()});
  for (int64_t i = 0; i < grouping.elements(); ++i)
    groups.values<int64_t>()[static_cast<size_t>(i)] = grouping.group_of(i);
  return scale.index_select(0, to_torch(groups)).view(shape);
}

/// [channels] as [1, ..., channels, ..., 1]; [groups] as the shape of the input.
at::Tensor broadcastable(const at::Tensor& scale, const QuantSpec& spec, const at::Tensor& input) {
  const Shape expected = scale_shape(spec, input.sizes().vec());
  if (scale.sizes().vec() != expected) {
    fail("the learned scale has shape {}, expected {}", shape_text(scale.sizes().vec()),
         shape_text(expected));
  }
  if (!scale.gt(0).all().item<bool>()) {
    fail("the learned scale is {}, expected above 0: try a smaller learning rate", scale.min().item<float>());
  }
  if (expected.empty()) return scale;
  if (spec.granularity == Granularity::kGroup) return spread_over_groups(scale, spec, input.sizes().vec());
  std::vector<int64_t> shape(static_cast<size_t>(input.dim()), 1);
  shape[static_cast<size_t>(spec.axis < 0 ? spec.axis + input.dim() : spec.axis)] = expected[0];
  return scale.view(shape);
}

}  // namespace

at::Tensor fake_quantize(const at::Tensor& input, const QuantSpec& spec, const at::Tensor& scale,
                         int64_t samples, uint64_t seed) {
  DETENT_CHECK(input.scalar_type() == at::kFloat, "{} tensor", at::toString(input.scalar_type()));
  const at::Tensor per_group = broadcastable(scale, spec, input);
  const double elements = static_cast<double>(input.numel()) / static_cast<double>(samples * scale.numel());
  return LearnedScale::apply(input, per_group, code_spec(spec), 1 / std::sqrt(elements * largest_code(spec)),
                             seed);
}

at::Tensor fake_quantize(const at::Tensor& input, const QuantSpec& spec, uint64_t seed) {
  DETENT_CHECK(input.scalar_type() == at::kFloat, "{} tensor", at::toString(input.scalar_type()));
  return FakeQuantize::apply(input, spec, seed);
}

}  // namespace detent

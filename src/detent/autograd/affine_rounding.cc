#include "detent/autograd/affine_rounding.h"

#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "detent/core/error.h"

namespace detent {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

std::vector<AffineGroup> groups_of(const at::Tensor& scale, const at::Tensor& low, const at::Tensor& high,
                                   int64_t count) {
  std::vector<AffineGroup> groups(static_cast<size_t>(count));
  const auto fill = [&](const at::Tensor& tensor, float AffineGroup::*field) {
    DETENT_CHECK(tensor.numel() == 1 || tensor.numel() == count, "{} values for {} groups", tensor.numel(),
                 count);
    const at::Tensor dense = tensor.contiguous();
    const float* values = dense.data_ptr<float>();
    for (int64_t g = 0; g < count; ++g)
      groups[static_cast<size_t>(g)].*field = values[tensor.numel() == 1 ? 0 : g];
  };
  fill(scale, &AffineGroup::scale);
  fill(low, &AffineGroup::low);
  fill(high, &AffineGroup::high);
  return groups;
}

/// Each group's number, added up where they share one tensor element.
template <class Number>
at::Tensor gradient_like(const at::Tensor& parameter, size_t groups, const Number& number) {
  const at::Tensor gradient = at::empty_like(parameter, at::MemoryFormat::Contiguous);
  auto* values = gradient.data_ptr<float>();
  if (parameter.numel() == 1) {
    double sum = 0;
    for (size_t g = 0; g < groups; ++g) sum += number(g);
    values[0] = static_cast<float>(sum);
    return gradient;
  }
  for (size_t g = 0; g < groups; ++g) values[g] = static_cast<float>(number(g));
  return gradient;
}

struct RoundAffine : torch::autograd::Function<RoundAffine> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& scale,
                            const at::Tensor& low, const at::Tensor& high, const AffineRows& rows,
                            AffineGradient gradient) {
    const at::Tensor input = x.contiguous();
    const std::vector<AffineGroup> groups = groups_of(scale, low, high, rows.groups);
    const at::Tensor values = at::empty_like(input);
    round_affine_rows(rows, groups, input.data_ptr<float>(), values.data_ptr<float>());
    context->save_for_backward({input, scale, low, high});
    context->saved_data["length"] = rows.length;
    context->saved_data["groups"] = rows.groups;
    context->saved_data["gradient"] = static_cast<int64_t>(gradient);
    return values;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& x = saved[0];
    const AffineRows rows{x.numel(), context->saved_data["length"].toInt(),
                          context->saved_data["groups"].toInt()};
    const auto kind = static_cast<AffineGradient>(context->saved_data["gradient"].toInt());
    const std::vector<AffineGroup> groups = groups_of(saved[1], saved[2], saved[3], rows.groups);
    const at::Tensor upstream = gradients[0].contiguous();
    const at::Tensor of_x = at::empty_like(x);
    const std::vector<AffineSums> sums =
        affine_row_gradients(rows, groups, x.data_ptr<float>(), upstream.data_ptr<float>(),
                             kind == AffineGradient::kEverywhere, of_x.data_ptr<float>());
    const auto of_scale = [&](size_t g) {
      if (kind != AffineGradient::kClipping) return sums[g].slope;
      return static_cast<double>(groups[g].low) * sums[g].below +
             static_cast<double>(groups[g].high) * sums[g].above;
    };
    const auto times_scale = [&](size_t g, double sum) { return static_cast<double>(groups[g].scale) * sum; };
    return {of_x,
            gradient_like(saved[1], groups.size(), of_scale),
            gradient_like(saved[2], groups.size(), [&](size_t g) { return times_scale(g, sums[g].below); }),
            gradient_like(saved[3], groups.size(), [&](size_t g) { return times_scale(g, sums[g].above); }),
            at::Tensor(),
            at::Tensor()};
  }
};

struct GradientFactor : torch::autograd::Function<GradientFactor> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& value, double factor) {
    context->saved_data["factor"] = factor;
    return value.view_as(value);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    return {gradients[0].mul(context->saved_data["factor"].toDouble()), at::Tensor()};
  }
};

struct StraightThrough : torch::autograd::Function<StraightThrough> {
  static at::Tensor forward(AutogradContext* /*context*/, const at::Tensor& /*value*/,
                            const at::Tensor& rounded) {
    return rounded.clone();
  }
  static variable_list backward(AutogradContext* /*context*/, variable_list gradients) {
    return {gradients[0], at::Tensor()};
  }
};

}  // namespace

at::Tensor round_affine(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& low,
                        const at::Tensor& high, const AffineRows& rows, AffineGradient gradient) {
  return RoundAffine::apply(x, scale, low, high, rows, gradient);
}

at::Tensor with_gradient_factor(const at::Tensor& value, double factor) {
  return GradientFactor::apply(value, factor);
}

at::Tensor straight_through(const at::Tensor& value, const at::Tensor& rounded) {
  return StraightThrough::apply(value, rounded);
}

}  // namespace detent

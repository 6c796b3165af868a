#include "detent/autograd/batch_moments.h"

#include <torch/csrc/autograd/custom_function.h>

#include <memory>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/var_mean.h>
#include <ATen/ops/zeros_like.h>

namespace detent {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

std::pair<at::Tensor, at::Tensor> variance_and_mean(const at::Tensor& values) {
  std::vector<int64_t> dims = {0};
  for (int64_t dim = 2; dim < values.dim(); ++dim) dims.push_back(dim);
  const auto [variance, mean] = at::var_mean(values, dims, /*unbiased=*/false);
  return {variance, mean};
}

double values_of_channel(const at::Tensor& values) {
  return static_cast<double>(values.numel()) / static_cast<double>(values.size(1));
}

struct Gathering : torch::CustomClassHolder {
  explicit Gathering(GatherSamples function) : gather(std::move(function)) {}
  GatherSamples gather;
};

/// Rows of all workers, in float64: each gives its vectors end to end.
at::Tensor gathered(const GatherSamples& gather, const std::vector<at::Tensor>& vectors) {
  return gather(at::cat(vectors).unsqueeze(0)).to(at::kDouble);
}

// Where worker w has n_w values a channel of mean m_w and variance v_w:
//   mean = sum n_w m_w / n,  variance = sum n_w (v_w + (m_w - mean)^2) / n
// (Chan, Golub, LeVeque 1979). With g_m and g_v the gradients of both, summed over the workers, since what
// each computes after them depends on them: gradient of x = g_m / n + 2 (x - mean) g_v / n.
struct SharedMoments : torch::autograd::Function<SharedMoments> {
  static variable_list forward(AutogradContext* context, const at::Tensor& values,
                               const c10::intrusive_ptr<Gathering>& gathering) {
    const auto [own_variance, own_mean] = variance_and_mean(values);
    const int64_t channels = own_mean.numel();
    const at::Tensor own_count = at::full({1}, values_of_channel(values), own_mean.options());
    const at::Tensor rows = gathered(gathering->gather, {own_mean, own_variance, own_count});
    const at::Tensor means = rows.narrow(1, 0, channels);
    const at::Tensor variances = rows.narrow(1, channels, channels);
    const at::Tensor counts = rows.narrow(1, 2 * channels, 1);
    const at::Tensor count = counts.sum();
    const at::Tensor mean = counts.mul(means).sum(0).div(count);
    const at::Tensor variance = counts.mul(variances.add(means.sub(mean).square())).sum(0).div(count);
    context->save_for_backward({values, mean});
    context->saved_data["count"] = count.item<double>();
    context->saved_data["gathering"] = c10::IValue::make_capsule(gathering);
    context->mark_non_differentiable({count});
    return {mean.to(values.dtype()), variance.to(values.dtype()), count};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor& values = saved[0];
    const at::Tensor& mean = saved[1];
    const double count = context->saved_data["count"].toDouble();
    const auto gathering = context->saved_data["gathering"].toCapsule();
    const auto defined = [&](const at::Tensor& gradient) {
      return gradient.defined() ? gradient : at::zeros_like(mean, values.options());
    };
    const at::Tensor sums = gathered(static_cast<const Gathering&>(*gathering).gather,
                                     {defined(gradients[0]), defined(gradients[1])})
                                .sum(0)
                                .div(count);
    const at::Tensor of_mean = sums.narrow(0, 0, mean.numel());
    const at::Tensor of_variance = sums.narrow(0, mean.numel(), mean.numel()).mul(2);
    const auto as_values = [&](const at::Tensor& channels) {
      return along_channels(channels.to(values.dtype()), values);
    };
    return {values.sub(as_values(mean)).mul_(as_values(of_variance)).add_(as_values(of_mean)), at::Tensor()};
  }
};

}  // namespace

BatchMoments batch_moments(const at::Tensor& values, const GatherSamples* gather) {
  if (gather == nullptr) {
    const auto [variance, mean] = variance_and_mean(values);
    return {mean, variance, values_of_channel(values)};
  }
  const variable_list moments = SharedMoments::apply(values, c10::make_intrusive<Gathering>(*gather));
  return {moments[0], moments[1], moments[2].item<double>()};
}

void move_running_statistics(const at::Tensor& running_mean, const at::Tensor& running_variance,
                             const BatchMoments& moments, double momentum) {
  const at::NoGradGuard no_gradients;
  const double unbiased = moments.count / (moments.count - 1);
  if (running_mean.defined()) running_mean.mul_(1 - momentum).add_(moments.mean, momentum);
  if (running_variance.defined())
    running_variance.mul_(1 - momentum).add_(moments.variance, momentum * unbiased);
}

at::Tensor along_channels(const at::Tensor& channels, const at::Tensor& like, int64_t dim) {
  std::vector<int64_t> shape(static_cast<size_t>(like.dim()), 1);
  shape[static_cast<size_t>(dim)] = channels.numel();
  return channels.view(shape);
}

}  // namespace detent

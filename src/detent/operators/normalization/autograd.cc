#include <ATen/ops/batch_norm.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/instance_norm.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/rsqrt.h>

#include <limits>

#include "detent/core/error.h"
#include "detent/graph/operators.h"
#include "detent/operators/autograd.h"

namespace detent {
namespace {

double eps(const Evaluation& e) { return number_attribute(e.node, "eps"); }

/// The unbiased variance is kept of them: that of one value is 0 / 0.
void check_values_to_normalise(const Evaluation& e, int64_t groups, const char* what) {
  if (e.training && e.tensor(0).numel() == groups) {
    fail("node \"{}\" ({}): got an input of shape {} while training, expected more than one value {}",
         e.node.name, e.node.op, shape_text(e.tensor(0).sizes().vec()), what);
  }
}

at::Tensor normalise_over_workers(const Evaluation& e) {
  const at::Tensor& x = e.tensor(0);
  const BatchMoments moments = batch_moments(x, e.gather);
  if (moments.count < 2) {
    fail("node \"{}\" ({}): got one value a channel at all workers while training, expected more",
         e.node.name, e.node.op);
  }
  move_running_statistics(e.parameter("running_mean"), e.parameter("running_var"), moments,
                          number_attribute(e.node, "momentum"));
  at::Tensor scale = at::rsqrt(moments.variance.add(eps(e)));
  if (e.parameter("weight").defined()) scale = scale.mul(e.parameter("weight"));
  const at::Tensor result = x.sub(along_channels(moments.mean, x)).mul(along_channels(scale, x));
  return e.parameter("bias").defined() ? result.add(along_channels(e.parameter("bias"), x)) : result;
}

Results evaluate_batch_norm(const Evaluation& e) {
  if (e.training && e.gather != nullptr) return normalise_over_workers(e);
  check_values_to_normalise(e, e.tensor(0).size(1), "a channel");
  return at::batch_norm(e.tensor(0), e.parameter("weight"), e.parameter("bias"), e.parameter("running_mean"),
                        e.parameter("running_var"), e.training, number_attribute(e.node, "momentum"), eps(e),
                        /*cudnn_enabled=*/false);
}

Results evaluate_instance_norm(const Evaluation& e) {
  const at::Tensor running_mean = e.parameter("running_mean");
  if (running_mean.defined())
    check_values_to_normalise(e, e.tensor(0).size(0) * e.tensor(0).size(1), "a channel of each sample");
  return at::instance_norm(e.tensor(0), e.parameter("weight"), e.parameter("bias"), running_mean,
                           e.parameter("running_var"),
                           /*use_input_stats=*/e.training || !running_mean.defined(),
                           number_attribute(e.node, "momentum"), eps(e), /*cudnn_enabled=*/false);
}

Results evaluate_layer_norm(const Evaluation& e) {
  return at::layer_norm(e.tensor(0), integers_attribute(e.node, "normalized_shape"), e.parameter("weight"),
                        e.parameter("bias"), eps(e), /*cudnn_enable=*/false);
}

Results evaluate_group_norm(const Evaluation& e) {
  return at::group_norm(e.tensor(0), integer_attribute(e.node, "num_groups"), e.parameter("weight"),
                        e.parameter("bias"), eps(e), /*cudnn_enabled=*/false);
}

Results evaluate_rms_norm(const Evaluation& e) {
  const at::Tensor& x = e.tensor(0);
  const bool given = !e.node.attributes.find("eps")->is_na();
  std::vector<int64_t> dims;
  for (size_t i = 0; i < integers_attribute(e.node, "normalized_shape").size(); ++i) {
    dims.push_back(-1 - static_cast<int64_t>(i));
  }
  const double added = given ? eps(e) : double{std::numeric_limits<float>::epsilon()};
  const at::Tensor normalized = x.mul(at::rsqrt(at::mean(x.mul(x), dims, /*keepdim=*/true).add(added)));
  const at::Tensor weight = e.parameter("weight");
  return weight.defined() ? normalized.mul(weight) : normalized;
}

}  // namespace

EvaluatorList normalization_evaluators() {
  return {{"batch_norm1d", evaluate_batch_norm}, {"batch_norm2d", evaluate_batch_norm},
          {"batch_norm3d", evaluate_batch_norm}, {"instance_norm2d", evaluate_instance_norm},
          {"layer_norm", evaluate_layer_norm},   {"group_norm", evaluate_group_norm},
          {"rms_norm", evaluate_rms_norm}};
}

}  // namespace detent

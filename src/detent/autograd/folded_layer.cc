#include "detent/autograd/folded_layer.h"

#include <algorithm>

#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros_like.h>

#include "detent/core/error.h"
#include "detent/graph/operators.h"

namespace detent {
namespace {

at::Tensor find(const FoldedNorm& norm, std::string_view name) {
  const auto found =
      std::ranges::find(norm.parameters, name, &std::pair<std::string_view, at::Tensor>::first);
  return found == norm.parameters.end() ? at::Tensor() : found->second;
}

at::Tensor sums(Evaluator evaluate, const Evaluation& layer, const at::Tensor& weight) {
  Evaluation without_bias = layer;
  without_bias.parameters = {{"weight", weight}};
  return std::get<at::Tensor>(evaluate(without_bias).flows().front());
}

struct Statistics {
  at::Tensor mean;
  at::Tensor sigma;
};

Statistics running(const FoldedNorm& norm) {
  return {find(norm, "running_mean").clone(),
          find(norm, "running_var").add(number_attribute(*norm.node, "eps")).sqrt()};
}

/// Statistics of the batch; moves the running ones, of which the variance is the unbiased one.
Statistics of_batch(const at::Tensor& values, const at::Tensor& bias, const FoldedNorm& norm,
                    const GatherSamples* gather) {
  BatchMoments moments = batch_moments(values, gather);
  if (moments.count < 2) {
    fail("node \"{}\" ({}): got an input of shape {} while training, expected more than one value a channel",
         norm.node->name, norm.node->op, shape_text(values.sizes().vec()));
  }
  const Statistics result{moments.mean, moments.variance.add(number_attribute(*norm.node, "eps")).sqrt()};
  if (bias.defined()) moments.mean = moments.mean.add(bias);
  move_running_statistics(find(norm, "running_mean"), find(norm, "running_var"), moments,
                          number_attribute(*norm.node, "momentum"));
  return result;
}

}  // namespace

at::Tensor run_with_norm(Evaluator evaluate, Evaluation layer, const FoldedNorm& norm,
                         const RoundWeight& round) {
  const at::Tensor weight = layer.parameter("weight");
  const at::Tensor bias = layer.parameter("bias");
  const Statistics before = running(norm);
  const at::Tensor gamma =
      find(norm, "weight").defined() ? find(norm, "weight") : at::ones_like(before.sigma);
  const at::Tensor beta = find(norm, "bias").defined() ? find(norm, "bias") : at::zeros_like(before.sigma);
  Statistics used = before;
  if (norm.is_frozen) {
    if (bias.defined()) used.mean = used.mean.sub(bias);
  } else {
    used = of_batch(sums(evaluate, layer, weight), bias, norm, layer.gather);
  }
  const bool is_corrected = norm.kind == NormFolding::kCorrected && !norm.is_frozen;
  const at::Tensor divisor = is_corrected ? before.sigma : used.sigma;
  at::Tensor result = sums(evaluate, layer, round(weight.mul(along_channels(gamma.div(divisor), weight, 0))));
  if (is_corrected) result = result.mul(along_channels(before.sigma.div(used.sigma), result));
  const at::Tensor shift = beta.sub(used.mean.mul(gamma).div(used.sigma));
  return result.add(along_channels(shift, result));
}

}  // namespace detent

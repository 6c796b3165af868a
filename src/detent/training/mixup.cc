#include "detent/training/mixup.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_standard_gamma.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randperm.h>

namespace detent {

Objective::Labels mix_samples(std::vector<at::Tensor>& inputs, const at::Tensor& labels, double alpha) {
  if (alpha == 0) return labels;
  const at::Tensor gammas = at::_standard_gamma(at::full({2}, alpha, at::kDouble));
  const double share = (gammas[0] / gammas.sum()).item<double>();
  const at::Tensor order = at::randperm(labels.size(0), at::kLong);
  for (at::Tensor& input : inputs) {
    if (input.scalar_type() == at::kFloat)
      input = input.mul(share).add(input.index_select(0, order), 1 - share);
  }
  return {labels, labels.index_select(0, order), share};
}

}  // namespace detent

#pragma once

#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "detent/training/optimizer.h"

namespace detent {

/// Drives the learned roundings of weights, h in [0, 1] (graph/owned_parameters.h), to 0 or 1, since after
/// training they are one of the two: weight * mean(1 - |2 h - 1|^beta), where beta falls from 20 to 2 once a
/// fifth of the training is over (Nagel et al. 2020, arXiv:2004.10568).
class RoundingPenalty {
 public:
  RoundingPenalty(std::span<const NamedParameter> parameters, double weight);

  /// Added to the loss at `progress`, from 0 to 1, of the training; undefined where there is none.
  at::Tensor penalty(double progress) const;

 private:
  std::vector<at::Tensor> roundings_;
  double elements_ = 0;
  double weight_;
};

}  // namespace detent

#include "detent/training/gradient_clipping.h"

#include <cmath>

#include <ATen/ops/norm.h>

#include "detent/core/error.h"

namespace detent {
namespace {

double norm_of_all(std::span<const NamedParameter> parameters) {
  double squares = 0;
  for (const auto& [name, parameter] : parameters) {
    if (!parameter.grad().defined()) continue;
    const auto norm = at::norm(parameter.grad()).item<double>();
    if (!std::isfinite(norm)) fail("the norm of the gradient of \"{}\" is {}", name, norm);
    squares += norm * norm;
  }
  return std::sqrt(squares);
}

}  // namespace

void clip_gradients(std::span<const NamedParameter> parameters, const TrainingOptions& options) {
  if (options.gradient_clip_value) {
    const double limit = *options.gradient_clip_value;
    for (const auto& [name, parameter] : parameters) {
      if (parameter.grad().defined()) parameter.grad().clamp_(-limit, limit);
    }
  }
  if (!options.gradient_clip_norm) return;
  const double scale = *options.gradient_clip_norm / (norm_of_all(parameters) + 1e-6);
  if (scale >= 1) return;
  for (const auto& [name, parameter] : parameters) {
    if (parameter.grad().defined()) parameter.grad().mul_(scale);
  }
}

}  // namespace detent

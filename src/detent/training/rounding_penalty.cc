#include "detent/training/rounding_penalty.h"

#include <fmt/format.h>

#include "detent/autograd/rounding_gradient.h"

namespace detent {

RoundingPenalty::RoundingPenalty(std::span<const NamedParameter> parameters, double weight)
    : weight_(weight) {
  for (const auto& [name, tensor] : parameters) {
    if (!name.ends_with(fmt::format("_{}", kRoundUp))) continue;
    roundings_.push_back(tensor);
    elements_ += static_cast<double>(tensor.numel());
  }
}

at::Tensor RoundingPenalty::penalty(double progress) const {
  constexpr double kFreeShare = 0.2;
  constexpr double kFirstBeta = 20;
  constexpr double kLastBeta = 2;
  if (roundings_.empty() || weight_ == 0 || progress < kFreeShare) return {};
  const double beta = kFirstBeta + (kLastBeta - kFirstBeta) * (progress - kFreeShare) / (1 - kFreeShare);
  at::Tensor undecided;
  for (const at::Tensor& rounding : roundings_) {
    const at::Tensor from_middle = round_up_share(rounding).mul(2).sub(1).abs();
    const at::Tensor sum = from_middle.pow(beta).neg().add(1).sum();
    undecided = undecided.defined() ? undecided.add(sum) : sum;
  }
  return undecided.mul(weight_ / elements_);
}

}  // namespace detent

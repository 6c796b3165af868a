#include "detent/inference/recurrent_gates.h"

#include <cmath>

#include "detent/core/error.h"
#include "detent/core/pair_functions.h"
#include "detent/kernels/functions.h"

namespace detent {
namespace {

/// The function is its argument where it exceeds this (PyTorch's).
constexpr double kSoftplusThreshold = 20;

template <class Function>
void map(std::span<float> values, Function function) {
  for (float& value : values) value = function(value);
}

/// NaN stays NaN; `high` where it is less than `low`.
float clipped(float x, float low, float high) {
  const float raised = x < low ? low : x;
  return raised > high ? high : raised;
}

}  // namespace

void apply_recurrent_function(const RecurrentActivation& activation, std::optional<double> clip,
                              std::span<float> values) {
  using Function = RecurrentActivation::Function;
  using Kind = ElementFunction::Kind;
  const auto alpha = static_cast<float>(activation.alpha);
  const auto beta = static_cast<float>(activation.beta);
  const auto apply = [&](const ElementFunction& function) { apply_function(function, values, values); };
  if (clip) {
    const auto low = static_cast<float>(-*clip);
    const auto high = static_cast<float>(*clip);
    map(values, [=](float x) { return clipped(x, low, high); });
  }
  switch (activation.function) {
    case Function::kSigmoid:
      return apply({Kind::kSigmoid});
    case Function::kTanh:
      return apply({Kind::kTanh});
    case Function::kScaledTanh:
      map(values, [=](float x) { return x * beta; });
      apply({Kind::kTanh});
      return map(values, [=](float x) { return x * alpha; });
    case Function::kElu:
      return apply({Kind::kElu, 1, activation.alpha});
    case Function::kSoftplus:
      return apply({Kind::kSoftplus, 1, kSoftplusThreshold});
    case Function::kRelu:
      return map(values, [](float x) { return x < 0 ? 0.0F : x; });
    case Function::kAffine:
      return map(values, [=](float x) { return x * alpha + beta; });
    case Function::kLeakyRelu:
      return map(values, [=](float x) { return selected(x > 0, x, x * alpha); });
    case Function::kThresholdedRelu:
      return map(values, [=](float x) { return x >= alpha ? x : 0.0F; });
    case Function::kHardSigmoid:
      return map(values, [=](float x) { return clipped(x * alpha + beta, 0, 1); });
    case Function::kSoftsign:
      return map(values, [](float x) { return x / (1 + std::fabs(x)); });
  }
  DETENT_CHECK(false, "function {}", static_cast<int>(activation.function));
}

}  // namespace detent

#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "detent/core/tensor.h"

namespace detent {

/// How x / scale becomes a whole number. Fixed point has a key for the first two; any rounds integers whose
/// scale is learned.
enum class Rounding {
  kNearest,  // ties to even
  kFloor,
  kCeil,
  kToZero,
  kStochastic,  // down or up with the probability of its nearness; to the nearest after training
  kLearned,     // round_up: floor(x / scale) + h(round_up), and after training floor + [h >= 1/2]
  kDorefa,      // of tanh(x) / max |tanh(x)|, to the nearest odd number: 2^k of them have a largest code
                // of 2^k - 1, and no 0 (Zhou et al. 2016, arXiv:1606.06160)
};
constexpr std::array<const char*, 7> enum_names(Rounding) {
  return {"nearest", "floor", "ceil", "to_zero", "stochastic", "learned", "dorefa"};
}

/// Whether it is to the nearest code after training, as formats round.
constexpr bool is_nearest_after_training(Rounding rounding) {
  return rounding == Rounding::kNearest || rounding == Rounding::kStochastic;
}

/// The whole numbers that `scaled`, x / scale, becomes in training, before they are clamped: of kLearned the
/// lower ones. `seed` decides kStochastic: equal seeds, equal draws. The caller's float environment is the
/// default one.
void round_to_whole(Rounding rounding, std::span<const float> scaled, std::span<float> codes, uint64_t seed);
/// tanh(x) / max |tanh(x)|; all 0 where x is.
Tensor tanh_normalized(const Tensor& input);

/// h(v) = clamp(1.2 sigmoid(v) - 0.1, 0, 1) (Nagel et al. 2020, arXiv:2004.10568) is 0 and 1 exactly.
constexpr float kStretch = 1.2F;
constexpr float kStretchFrom = -0.1F;
/// The v at which h(v) is `fraction`, in [0, 1].
float round_up_of(float fraction);

}  // namespace detent

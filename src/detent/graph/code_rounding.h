#pragma once

#include <cstdint>
#include <span>

#include "detent/graph/quantizer.h"

namespace detent {

constexpr const char* kRoundUp = "round_up";

/// The whole numbers that `scaled`, x / scale, becomes, before they are clamped: of kLearned the lower ones.
/// `seed` decides kStochastic: equal seeds, equal draws.
void round_to_whole(CodeRounding rounding, std::span<const float> scaled, std::span<float> codes,
                    uint64_t seed);
/// tanh(x) / max |tanh(x)|; all 0 where x is.
Tensor tanh_normalized(const Tensor& input);

/// h(v) = clamp(1.2 sigmoid(v) - 0.1, 0, 1) (Nagel et al. 2020, arXiv:2004.10568) is 0 and 1 exactly.
constexpr float kStretch = 1.2F;
constexpr float kStretchFrom = -0.1F;
/// The v at which h(v) is `fraction`, in [0, 1].
float round_up_of(float fraction);

/// What the quantizer makes of `input` after training.
Tensor round_after_training(const Quantizer& quantizer, const Tensor& input);

/// Rounds the operand once and for all: its values, and a quantizer of a format, which leaves them as they
/// are and has the same integers. Of a quantizer that rounds to the nearest: `values` as they were.
struct SettledOperand {
  Quantizer quantizer;
  Tensor values;
};
SettledOperand settle(const Quantizer& quantizer, const Tensor& values);

}  // namespace detent

#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "detent/graph/quantizer.h"

namespace detent {

/// How x / scale becomes a whole number, where a quantizer with a learned scale says: by the parameter
/// `rounding`, [], which is one of these, or by `round_up`, of the operand's shape.
enum class CodeRounding {
  kNearest,  // ties to even
  kFloor,
  kCeil,
  kToZero,
  kStochastic,  // down or up with the probability of its nearness; to the nearest behind training
  kLearned,     // round_up: floor(x / scale) + h(round_up), and behind training floor + [h >= 1/2]
  kDorefa,      // of tanh(x) / max |tanh(x)|, to the nearest odd number: 2^k of them have a largest code
                // of 2^k - 1, and no 0 (Zhou et al. 2016, arXiv:1606.06160)
};
constexpr std::array<const char*, 7> enum_names(CodeRounding) {
  return {"nearest", "floor", "ceil", "to_zero", "stochastic", "learned", "dorefa"};
}

constexpr const char* kRounding = "rounding";
constexpr const char* kRoundUp = "round_up";

CodeRounding code_rounding(const Quantizer& quantizer);
/// Whether it rounds to the nearest code behind training, as formats do.
bool rounds_to_nearest(const Quantizer& quantizer);

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

/// What the quantizer makes of `input` behind training.
Tensor round_behind_training(const Quantizer& quantizer, const Tensor& input);

/// Rounds the operand once and for all: its values, and a quantizer of a format, which leaves them as they
/// are and has the same integers. Of a quantizer that rounds to the nearest: `values` as they were.
struct SettledOperand {
  Quantizer quantizer;
  Tensor values;
};
SettledOperand settle(const Quantizer& quantizer, const Tensor& values);

}  // namespace detent

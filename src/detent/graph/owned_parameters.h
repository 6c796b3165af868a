#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "detent/graph/quantizer.h"

namespace detent {

constexpr const char* kRoundUp = "round_up";

/// Rounds the operand for good: its values, and a quantizer of a format that keeps them and has the same
/// integers. For a quantizer that rounds to nearest: `values` unchanged.
struct SettledOperand {
  Quantizer quantizer;
  Tensor values;
};
SettledOperand settle(const Quantizer& quantizer, const Tensor& values);

// Parameters that quantizers own, and how rounding follows from them. Where the scale is learned, one of the
// parameters stands for it: [], [channels] or [groups], of binary_residual [levels].
//   scale       the scale
//   log2_scale  its logarithm
//   exponent    the scale is 2^ceil(exponent), a power of two
//   range       what the largest code stands for: the scale is range / largest code
//   clip        the same, trained with the gradient of PACT
//   gamma       the scales of binary_residual's levels
// Beside it there may be
//   zero_point  real, rounded to the nearest code; of affine with signed = false
//   width       [], bits, rounded to the nearest whole number of at least 2; beside range or clip, of affine
//   threshold   [], ternary: x / scale is 0 up to here (1/2 where there is none)
//   round_up    of the operand's shape, of Rounding::kLearned: how far each of its elements is rounded up
// Formats without a learned scale may own
//   codebook       [values], the values of a codebook, in any order
//   exponent_bias  [], of minifloat_ieee and minifloat_denorm, rounded to a whole number

/// Which learned parameter gives the scale.
enum class ScaleParameter { kScale, kLog2, kExponent, kRange, kClip, kGamma };
constexpr std::array<const char*, 6> enum_names(ScaleParameter) {
  return {"scale", "log2_scale", "exponent", "range", "clip", "gamma"};
}

constexpr int kLeastWidth = 2;
constexpr int kMostWidth = 16;

/// nullopt if no parameter gives the scale.
std::optional<ScaleParameter> scale_parameter(const Quantizer& quantizer);
const char* scale_parameter_name(ScaleParameter parameter);

/// The integer width of a trained one. Throws Error if not finite.
int rounded_width(float width);

constexpr const char* kCodebook = "codebook";
constexpr const char* kExponentBias = "exponent_bias";

/// `spec` as `width`, `zero_point`, `threshold`, `codebook` and `exponent_bias` say, without the scale.
QuantSpec with_owned_fields(const Quantizer& quantizer);
/// The largest code minus the smallest zero point of this spec.
double largest_code_of(const QuantSpec& spec);

/// The scale given by the parameters, above 0. Throws Error otherwise, or if never calibrated.
Tensor owned_scale(const Quantizer& quantizer);
/// The value of the parameter that stands for this scale (of `spec` with its owned fields).
float parameter_of_scale(ScaleParameter kind, float scale, double largest_code);
/// The inverse.
float scale_of_parameter(ScaleParameter kind, float parameter, double largest_code);

/// Checks the quantizer of an operand of what `where` names. Throws Error, beginning with `where`, on
/// settings and parameters that the spec does not read, that are missing, that occur twice, or of another
/// shape or dtype, and on values that are not finite or stand for nothing.
void verify_owned_parameters(const Quantizer& quantizer, const std::string& operand,
                             const std::string& where);

}  // namespace detent

#pragma once

#include <span>
#include <string>
#include <string_view>

#include "detent/graph/code_rounding.h"
#include "detent/graph/owned_parameters.h"

namespace detent {

/// Quantizers of layers for quantization-aware training, by a name that people use. The texts are those of
/// parse_quant_spec_text, without the axis of channels.
struct QatPreset {
  std::string name;
  std::string help;
  std::string weights;
  std::string activations;              // "": these stay in float
  std::string activations_not_below_0;  // of inputs that were never negative, as after a relu
  /// What stands for the scales that are learned.
  ScaleParameter weight_scale = ScaleParameter::kScale;
  ScaleParameter activation_scale = ScaleParameter::kScale;
  bool learns_zero_points = false;  // of activations, which are unsigned then
  bool learns_widths = false;       // of weights
  bool learns_threshold = false;    // of ternary weights
  bool learns_field = false;        // codebooks of weights, or the exponent biases of all
  /// How affine weights with a learned scale are rounded. Codes of kDorefa are odd: they take a bit more than
  /// the width of `weights`.
  CodeRounding weight_rounding = CodeRounding::kNearest;
  bool range_is_one = false;  // of activations, and stays
};

std::span<const QatPreset> all_qat_presets();

/// Throws Error, beginning with `where`, naming the nearest.
const QatPreset& find_qat_preset(std::string_view name, const std::string& where);

}  // namespace detent

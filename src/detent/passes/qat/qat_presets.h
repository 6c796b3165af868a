#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "detent/graph/graph.h"
#include "detent/graph/owned_parameters.h"
#include "detent/statistics/range_search.h"

namespace detent {

/// Named quantizers for quantization-aware training, as texts of parse_quant_spec_text without the channel
/// axis.
struct QatPreset {
  std::string name;
  std::string help;
  std::string weights;
  std::string activations;              // "": these stay in float
  std::string activations_not_below_0;  // of inputs that were never negative, as after a relu
  /// Learned parameter of the scales.
  ScaleParameter weight_scale = ScaleParameter::kScale;
  ScaleParameter activation_scale = ScaleParameter::kScale;
  bool learns_zero_points = false;  // of activations, which are unsigned then
  bool learns_widths = false;       // of weights
  bool learns_threshold = false;    // of ternary weights
  bool learns_field = false;        // codebooks of weights, or the exponent biases of all
  /// Rounding of affine weights with a learned scale. Codes of kDorefa are odd: they take slightly more than
  /// the width of `weights`.
  Rounding weight_rounding = Rounding::kNearest;
  bool range_is_one = false;  // of activations, and stays
};

std::span<const QatPreset> all_qat_presets();

/// Throws Error, beginning with `where`, naming the nearest.
const QatPreset& find_qat_preset(std::string_view name, const std::string& where);

/// Initial scales of weights.
struct WeightBeginning {
  std::optional<Rounding> rounding;    // nullopt: as the preset says
  std::optional<Threshold> statistic;  // nullopt: as of LSQ; of a learned rounding squared_error
  double argument = 0;                 // of the statistic
};

/// Gives the quantizer of a layer's weights its parameters, beside the scale that it has, with initial
/// values. Throws Error, beginning with `where`, where such weights cannot be rounded so.
void complete_weights(Node& layer, const QatPreset& preset, const WeightBeginning& beginning,
                      const std::string& where);

/// Replaces the scale by an equivalent parameter.
void represent_scale(Quantizer& quantizer, ScaleParameter kind);
/// Adds a parameter of one number.
void add_number(Quantizer& quantizer, const char* name, float value);
/// Makes the exponent bias owned: the largest with which `range` does not saturate.
void own_exponent_bias(Quantizer& quantizer, Interval range, const std::string& where);

/// Up to `count` values, ascending, of which the nearest are, in a local optimum, at the least squared
/// distance from `values` (Lloyd's algorithm, from the quantiles on).
std::vector<float> fit_codebook(std::span<const float> values, size_t count);

/// Gives every quantizer the learned scale that its spec asks for, and removes what it does not. A scale that
/// is there already and has the right shape keeps its value. Others begin as formats/groups/learned_scale.h
/// says: from the parameter's values, for an activation from the statistic abs_mean of profile_statistics
/// where that is there (for scales per channel, abs_mean with dims = {keep = [axis]}), else from the format's
/// own scale; where operands share a quantizer as the first of them says. Throws Error, beginning with
/// `where`, where a scale has nothing to begin from.
void place_learned_scales(Graph& graph, const std::string& where);

}  // namespace detent

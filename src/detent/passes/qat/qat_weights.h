#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "detent/graph/code_rounding.h"
#include "detent/graph/graph.h"
#include "detent/passes/qat/qat_presets.h"
#include "detent/statistics/threshold.h"

namespace detent {

/// How the scales of weights begin.
struct WeightBeginning {
  std::optional<CodeRounding> rounding;  // nullopt: as the preset says
  std::optional<Threshold> statistic;    // nullopt: as of LSQ; of a learned rounding squared_error
  double argument = 0;                   // of the statistic
};

/// What the quantizer of a layer's weights owns, beside the scale that it has, and where it begins. Throws
/// Error, beginning with `where`, where such weights cannot be rounded so.
void complete_weights(Node& layer, const QatPreset& preset, const WeightBeginning& beginning,
                      const std::string& where);

/// Puts another parameter in the place of the scale, which stands for the same.
void represent_scale(Quantizer& quantizer, ScaleParameter kind);
/// Adds a parameter of one number.
void add_number(Quantizer& quantizer, const char* name, float value);
/// Lets the quantizer own its exponent bias: the largest with which `range` does not saturate.
void own_exponent_bias(Quantizer& quantizer, Interval range, const std::string& where);

/// Up to `count` values, ascending, of which the nearest are, in a local optimum, at the least squared
/// distance from `values` (Lloyd's algorithm, from the quantiles on).
std::vector<float> fit_codebook(std::span<const float> values, size_t count);

}  // namespace detent

#pragma once

#include <string>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/formats/quant_spec.h"
#include "detent/graph/graph.h"
#include "detent/statistics/calibration.h"

namespace detent {

/// Distribution of the weights of each group (tensor, channel, part of a channel) of `spec`, in order: as
/// much of it as `calibrator` asks for. Throws Error beginning with `where` on weights that are not finite.
std::vector<Distribution> weight_distributions(const Tensor& weight, const QuantSpec& spec,
                                               Calibrator calibrator, const std::string& where);

/// Gives the weight of a layer that computes on codes larger scales where its biases or sums do not fit into
/// 32 bits (integer/sum_form.h).
void fit_weight_scales(Node& layer);

}  // namespace detent

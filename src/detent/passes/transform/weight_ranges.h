#pragma once

#include <vector>

#include "detent/core/tensor.h"
#include "detent/formats/quant_spec.h"
#include "detent/statistics/calibration.h"

namespace detent {

/// Distribution of the weights of each group (tensor, channel, part of a channel) of `spec`, in order: as
/// much of it as `calibrator` asks for.
std::vector<Distribution> weight_distributions(const Tensor& weight, const QuantSpec& spec,
                                               Calibrator calibrator);

}  // namespace detent

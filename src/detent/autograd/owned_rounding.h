#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "detent/autograd/batch_moments.h"
#include "detent/graph/quantizer.h"

namespace detent {

/// Parameters that a quantizer owns (graph/owned_parameters.h), as leaves of autograd, by name.
using OwnedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// A quantizer in a training.
struct TrainedQuantizer {
  QuantSpec spec;
  OwnedTensors owned = {};
  Rounding rounding = Rounding::kNearest;
  ScaleObserver* observer = nullptr;  // which steps move on; null: its scale is not observed

  bool is_observing() const { return observer != nullptr && observer->is_observing(); }
};

/// Rounds a float32 tensor of a training with what its quantizer owns, for `samples` samples in a batch (1
/// for parameters), differentiably; `seed` as in fake_quantize. With v = x / scale and N elements a scale and
/// sample, the gradients are
///   x           1 where v does not saturate, else 0
///   scale       code - v where v does not saturate, else the outermost code (LSQ, Esser et al. 2019,
///               arXiv:1902.08153); of clip only the outermost code (PACT, Choi et al. 2018,
///               arXiv:1805.06085)
///   zero_point  -scale where v saturates (LSQ+, Bhalgat et al. 2020, arXiv:2004.09576)
///   width       what the codes' ends, 2^width, and range / largest code make of the two before
///   gamma       the sign of its level
///   threshold   -scale sign(x) where ||v| - threshold| < 1/2
///   round_up    see rounding_gradient.h; codebook and exponent_bias: see owned_fields.h
/// and logarithms have the derivative of 2^x; ceil and roundings pass gradients on. All but clip's are
/// divided by sqrt(N * largest code). While the quantizer observes, its parameters are what it observes, of
/// all workers' samples where `gather` is given: each makes the same calls then.
at::Tensor round_with_owned(const at::Tensor& input, const TrainedQuantizer& quantizer, int64_t samples,
                            uint64_t seed, const GatherSamples& gather = {});

/// One step of observation where the quantizer still observes, without rounding.
void observe_scale(const at::Tensor& input, const TrainedQuantizer& quantizer,
                   const GatherSamples& gather = {});

}  // namespace detent

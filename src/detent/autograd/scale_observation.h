#pragma once

#include <optional>

#include "detent/autograd/owned_rounding.h"
#include "detent/graph/owned_parameters.h"

namespace detent {

/// Parameters that a step of training rounds with while the quantizer observes.
struct ObservedStep {
  at::Tensor scale;
  at::Tensor zero_point;  // undefined where the quantizer owns none
};

/// Takes the statistic of `input` into the average that the owned parameters hold; nullopt, and nothing
/// happens, where the quantizer does not observe, or no longer. The step itself rounds with its own
/// statistic, in the form of the parameter; `spec` is the quantizer's with its learned fields. With `gather`,
/// these are statistics of all workers' samples.
std::optional<ObservedStep> observe_step(const at::Tensor& input, const QuantSpec& spec,
                                         const TrainedQuantizer& quantizer, const GatherSamples& gather = {});

/// Which of them gives the scale.
ScaleParameter scale_kind(const OwnedTensors& owned);
/// The tensor of that name; undefined where there is none.
at::Tensor find_owned(const OwnedTensors& owned, std::string_view name);

}  // namespace detent

#pragma once

#include <optional>
#include <span>

#include "detent/graph/operator_arguments.h"

namespace detent {

/// A function of a recurrent layer on each value, in place, after the values are clamped to [-clip, clip].
/// The bits do not depend on the processor: of sigmoid, tanh, elu and softplus those of ElementFunction
/// (float32/functions.h), of the others those of operations of IEEE 754, each rounded.
void apply_recurrent_function(const RecurrentActivation& activation, std::optional<double> clip,
                              std::span<float> values);

}  // namespace detent

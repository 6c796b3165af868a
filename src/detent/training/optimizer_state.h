#pragma once

#include <span>
#include <string>
#include <utility>

#include <torch/optim/optimizer.h>

#include "detent/graph/graph_parameters.h"
#include "detent/training/options.h"

namespace detent {

/// See ParameterOptimizer, whose state these read and write.
StateDict optimizer_state(const torch::optim::Optimizer& optimizer, OptimizerKind kind,
                          std::span<const std::pair<std::string, at::Tensor>> parameters);
void load_optimizer_state(torch::optim::Optimizer& optimizer, OptimizerKind kind,
                          std::span<const std::pair<std::string, at::Tensor>> parameters,
                          const StateDict& state, const std::string& source);

}  // namespace detent

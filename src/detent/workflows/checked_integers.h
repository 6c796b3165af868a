#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/datasets/dataset.h"
#include "detent/graph/graph.h"

namespace detent {

/// The inputs of the first samples, at most `count`.
std::vector<Tensor> first_inputs(const Dataset& dataset, int64_t count);

struct IntegerCheckOptions {
  bool shows_progress = true;
  bool names_slow_steps = true;
};

struct CheckedIntegers {
  std::string text;             // how many samples and tensors agree, or why integers are not possible
  std::string slow_steps = {};  // what of the network the engine has no fast kernel for
};

/// The promise that simulation is execution, kept on some samples of the user's own; and what of it is slow.
CheckedIntegers check_integers(const Graph& graph, const Dataset& dataset,
                               const IntegerCheckOptions& options);

}  // namespace detent

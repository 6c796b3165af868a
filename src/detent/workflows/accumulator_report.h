#pragma once

#include <cstdint>
#include <vector>

#include "detent/datasets/dataset.h"
#include "detent/graph/graph.h"
#include "detent/passes/analysis/accumulator_overflows.h"

namespace detent {

/// What happens in the accumulators of a network on the first samples of a data set.
struct AccumulatorReport {
  std::vector<AccumulatedLayer> layers;  // none where no layer has one
  int64_t samples = 0;
};

AccumulatorReport accumulator_report(const Graph& graph, const Dataset& dataset);

}  // namespace detent

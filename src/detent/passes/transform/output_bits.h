#pragma once

#include "detent/graph/graph.h"
#include "detent/passes/pass.h"

namespace detent {

/// Elements of outputs, and those of them that differ in value.
struct OutputBits {
  int64_t compared = 0;
  int64_t differing = 0;
};

/// Compares what two networks make of so many calibration samples, all that there are if these are fewer.
OutputBits compare_output_bits(const Graph& before, const Graph& after, int64_t samples,
                               const PassContext& context);

}  // namespace detent

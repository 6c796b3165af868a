#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/formats/quant_spec.h"
#include "detent/graph/graph.h"
#include "detent/passes/pass.h"
#include "detent/passes/post_training/code_groups.h"
#include "detent/statistics/calibration.h"

namespace detent {

/// Runs a float network over calibration samples and collects what the calibrators need of the values that
/// the plan's nodes compute with: the results stand in the statistics of the graph returned.
Graph measured_activations(const Graph& graph, const CodePlan& plan, const std::set<Calibrator>& calibrators,
                           int64_t num_samples, PassContext& context);

/// Distribution of the group's values that nodes compute with, each counted once. Throws Error, beginning
/// with `where`, where they include NaN or infinities.
Distribution measured_distribution(const Graph& measured, const CodeGroup& group, const std::string& where);

}  // namespace detent

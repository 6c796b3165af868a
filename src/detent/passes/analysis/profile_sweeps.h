#pragma once

#include <utility>
#include <vector>

#include "detent/passes/analysis/profile_request.h"

namespace detent {

/// One look at the values of a probe's operand.
struct ProfileSweep {
  Probe* probe = nullptr;
  Probe* post_relu = nullptr;  // if any: sees what a ReLU makes of them
};

/// Which operands have to be looked at for all probes to know theirs. What several operands have in common
/// is looked at once: a node's result and what other nodes read of it, where it is not quantized between. And
/// the input of a ReLU and its output, where both are profiled and nothing is quantized between, share a
/// sweep. Where samples are recorded, values are seen after they are quantized, or the graph computes on
/// codes, each probe looks itself.
struct SweepPlan {
  std::vector<ProfileSweep> sweeps;
  /// Probes that see what the second one of the pair sees.
  std::vector<std::pair<Probe*, const Probe*>> copies;
};

/// Points into `probes`.
SweepPlan plan_sweeps(const Graph& graph, ObservedValues values, std::vector<Probe>& probes);

}  // namespace detent

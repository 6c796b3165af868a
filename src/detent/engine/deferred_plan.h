#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "detent/engine/program_plan.h"
#include "detent/engine/step.h"
#include "detent/graph/executor.h"
#include "detent/graph/operators.h"

namespace detent {

// Sizes that follow from data, as the length of speech does that a network itself foretells, are known in the
// run alone. What needs no sizes runs as the plan says, step by step; before the first layer whose kernel
// needs them the plan ends, and the rest is planned for the sizes that have come out. Plans are kept for the
// next run.

/// The place, from `first` on, of the first layer that needs a size which `types` leave open; the number of
/// steps where there is none.
size_t open_layer(const ProgramParts& program, size_t first, const ValueTypes& types);

/// Values that steps before `step` compute and others read.
std::vector<std::string> values_between(const ReferencePlan& reference, size_t step);

/// All steps from `first` on.
struct DeferredSteps {
  ProgramParts program;
  Observation observation;
  size_t first;
  ValueTypes types = {};                                    // of what follows
  std::vector<EarlierValue> known = {};                     // values that each run has
  std::vector<std::pair<std::string, size_t>> values = {};  // the others, and their flows
  std::vector<size_t> outputs = {};                         // flows for those of the network
};
std::unique_ptr<EngineStep> deferred_plan(DeferredSteps steps);

}  // namespace detent

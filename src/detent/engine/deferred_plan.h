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

// Sizes that follow from data, such as the length of synthesized speech, are known only at run time. Steps
// that need no sizes run as planned; before the first layer whose kernel needs them the plan ends, and the
// rest is planned for the actual sizes. Plans are kept for the next run.

/// The place, from `first` on, of the first layer that needs a size which `types` leave open; the number of
/// steps where there is none.
size_t open_layer(const ProgramParts& program, size_t first, const ValueTypes& types);

/// Values computed before `step` and read later.
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

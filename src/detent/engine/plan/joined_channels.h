#pragma once

#include <cstddef>
#include <vector>

#include "detent/engine/program_plan.h"

namespace detent {

/// By place, the steps that write or read it.
using PlaceUsers = std::vector<std::vector<size_t>>;

/// A concatenation of channels: the step that copies its inputs, places channels last, into the place `to`.
struct JoinedChannels {
  size_t step;
  size_t to;
  std::vector<JoinedInput> inputs;
};

/// Lets the inputs of concatenations be slices of their results, where all steps that write or read them can
/// take them so: nothing is copied then, and steps without anything to copy go.
void join_in_place(ProgramPlan& plan, const KernelSet& kernels, PlaceUsers users,
                   std::vector<JoinedChannels> joins);

}  // namespace detent

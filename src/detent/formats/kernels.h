#pragma once

#include <cstdint>

#include "detent/formats/all.h"
#include "detent/formats/group.h"

namespace detent {

/// Rounds the elements [begin, end) of a tensor. `input` and `output` point to element `begin` and may be
/// equal. `stream` writes past the caches: for outputs larger than
/// they are. The caller holds a DefaultFloatEnvironment.
void simulate_range(const GroupParameters& parameters, const Grouping& grouping, const float* input,
                    float* output, int64_t begin, int64_t end, bool stream);

/// Name of the instruction set that the kernels run on: "AVX3", "SSE4", ...
const char* kernel_target();

}  // namespace detent

#pragma once

#include <cstdint>

#include "detent/datasets/dataset.h"
#include "detent/search/judge.h"
#include "detent/workflows/random_source.h"

namespace detent {

/// Samples of `validation` in random order, and after them those of `training`, at most `count` in all. Both
/// may be the same set; they must outlive what is returned.
JudgedSamples judged_samples(const Dataset& validation, const Dataset& training, int64_t count,
                             const RandomSource& random);

}  // namespace detent

#pragma once

#include <cstdint>

#include "detent/workflows/random_source.h"
#include "detent/datasets/dataset.h"
#include "detent/passes/pass.h"

namespace detent {

/// What pipelines need: samples in an order that `random` draws when the first pass asks for them; reports go
/// to standard output, warnings to the log. `dataset` and `executor` must outlive the context.
PassContext make_pass_context(const Dataset& dataset, const RandomSource& random, int64_t batch_size,
                              std::filesystem::path output_dir, Executor& executor);

}  // namespace detent

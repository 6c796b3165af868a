#pragma once

#include <cstdint>
#include <filesystem>

#include "detent/datasets/dataset.h"
#include "detent/passes/pass.h"
#include "detent/workflows/random_source.h"

namespace detent {

/// What pipelines need: samples in an order that `random` draws when the first pass asks for them. Reports
/// are dropped unless the caller sets where they go; warnings go to the log. `dataset` and `executor` must
/// outlive the context.
PassContext calibration_context(const Dataset& dataset, const RandomSource& random, int64_t batch_size,
                                std::filesystem::path output_dir, Executor& executor);

}  // namespace detent

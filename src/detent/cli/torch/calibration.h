#pragma once

#include <cstdint>

#include "detent/datasets/dataset.h"
#include "detent/passes/pass.h"

namespace detent {

/// What pipelines need, with the libtorch interpreter as executor; reports go to standard output, warnings to
/// the log. `dataset` and `executor` must outlive the context.
PassContext make_pass_context(const Dataset& dataset, int64_t batch_size, std::filesystem::path output_dir,
                              Executor& executor);

}  // namespace detent

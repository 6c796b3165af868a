#pragma once

#include <cstdint>

#include "detent/datasets/dataset.h"
#include "detent/passes/pass.h"

namespace detent {

/// A pass over the inputs of `dataset` in the order of a shuffled loader (which draws from the default
/// generator). The data set must outlive the stream.
InputStream shuffled_inputs(const Dataset& dataset, int64_t batch_size);

/// What pipelines need, with the libtorch interpreter as executor; reports go to standard output, warnings to
/// the log. `dataset` and `executor` must outlive the context.
PassContext make_pass_context(const Dataset& dataset, int64_t batch_size, std::filesystem::path output_dir,
                              Executor& executor);

}  // namespace detent

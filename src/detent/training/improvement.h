#pragma once

#include "detent/evaluation/metrics.h"
#include "detent/training/options.h"
#include "detent/training/training_state.h"

namespace detent {

/// Records an epoch's validation in `progress`; returns whether the epoch is the best so far, by the
/// monitored value. For patience it counts as improved only when that value is better by more than min_delta
/// than when it last did.
bool note_validation(TrainingProgress& progress, const Metrics& validation, const TrainingOptions& options);

/// Whether patience has ended training.
bool is_out_of_patience(const TrainingProgress& progress, const TrainingOptions& options);

/// Whether a training that stands there has nothing left to do.
bool has_ended(const TrainingProgress& progress, const TrainingOptions& options);

}  // namespace detent

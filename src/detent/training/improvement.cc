#include "detent/training/improvement.h"

#include <cmath>

namespace detent {

bool note_validation(TrainingProgress& progress, const Metrics& validation, const TrainingOptions& options) {
  // How much better `value` is than `other`: losses fall, accuracies rise.
  const auto gain = [&](double value, double other) {
    return options.monitor == Monitor::kLoss ? other - value : value - other;
  };
  const double value = options.monitor == Monitor::kLoss ? validation.loss() : validation.accuracy();
  // A value that is not finite is never the best: nothing could be better than NaN.
  const bool may_be_best = std::isfinite(value);
  const bool is_best = may_be_best && (!progress.best || gain(value, *progress.best) > 0);
  if (is_best) progress.best = value;
  const bool improved =
      may_be_best && (!progress.to_improve || gain(value, *progress.to_improve) > options.min_delta);
  if (improved) progress.to_improve = value;
  progress.epochs_without_improvement = improved ? 0 : progress.epochs_without_improvement + 1;
  return is_best;
}

bool is_out_of_patience(const TrainingProgress& progress, const TrainingOptions& options) {
  return options.patience && progress.epochs_without_improvement >= *options.patience;
}

bool has_ended(const TrainingProgress& progress, const TrainingOptions& options) {
  const bool has_all_steps = options.max_steps && progress.global_step >= *options.max_steps;
  return progress.epoch > options.max_epochs || is_out_of_patience(progress, options) ||
         (has_all_steps && progress.batches == 0);
}

}  // namespace detent

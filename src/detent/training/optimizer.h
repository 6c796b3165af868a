#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <torch/optim/optimizer.h>

#include "detent/graph/graph_parameters.h"
#include "detent/training/options.h"

namespace detent {

/// A parameter by its name in the state_dict.
using NamedParameter = std::pair<std::string, at::Tensor>;

/// libtorch's optimizer of the kind that the options ask for, with every option that it has, and a group of
/// its own for the parameters of each of options.parameter_groups, and for those of quantizers that are in
/// none: these have scale_learning_rate, widths width_learning_rate, and no weight decay. Throws Error on a
/// pattern that is the first to match no parameter.
class ParameterOptimizer {
 public:
  ParameterOptimizer(const TrainingOptions& options, std::vector<NamedParameter> parameters,
                     const std::vector<std::string>& of_quantizers = {});

  /// Sets the learning rate of each group for optimizer step `step` (from 0) after `epochs` epochs.
  void set_learning_rates(double epochs, int64_t step);
  /// Updates the parameters that have a gradient, and clears their gradients.
  void step();

  /// State of each updated parameter, under PyTorch's names: "<parameter>.step" (int64),
  /// "<parameter>.exp_avg", "<parameter>.momentum_buffer", ... The tensors are the optimizer's own memory.
  StateDict state() const;
  /// Copies the tensors of an earlier `state`. Throws Error, beginning with `source`, naming the tensor that
  /// is missing, unknown or of another shape.
  void load_state(const StateDict& state, const std::string& source);

 private:
  TrainingOptions options_;
  std::vector<NamedParameter> parameters_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  std::vector<double> learning_rates_;  // of each group, at the beginning
};

/// Learning rate after `epochs` epochs where it begins with `learning_rate`: constant, or eta_min + (lr -
/// eta_min) * (1 + cos(pi * epochs / t_max)) / 2 (Loshchilov and Hutter 2016, arXiv:1608.03983, without
/// restarts); eta_min from epoch t_max on. Only cosine_steps counts parts of epochs.
double scheduled_learning_rate(const TrainingOptions& options, double learning_rate, double epochs);

/// Factor of the scheduled rate in step `step` (from 0): (step + 1) / warmup_steps, at most 1.
double warmup_factor(const TrainingOptions& options, int64_t step);

}  // namespace detent

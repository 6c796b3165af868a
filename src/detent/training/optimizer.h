#pragma once

#include <memory>
#include <vector>

#include <torch/optim/optimizer.h>

#include "detent/training/options.h"

namespace detent {

/// libtorch's optimizer of that kind with every option that it has.
std::unique_ptr<torch::optim::Optimizer> make_optimizer(const TrainingOptions& options,
                                                        std::vector<at::Tensor> parameters);

/// Learning rate in epoch `epoch` (from 0): constant, or eta_min + (lr - eta_min) * (1 + cos(pi * epoch /
/// t_max)) / 2 (Loshchilov and Hutter 2016, arXiv:1608.03983, without restarts); eta_min from epoch t_max on.
double scheduled_learning_rate(const TrainingOptions& options, int64_t epoch);

void set_learning_rate(torch::optim::Optimizer& optimizer, double learning_rate);

}  // namespace detent

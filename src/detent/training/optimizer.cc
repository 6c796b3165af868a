#include "detent/training/optimizer.h"

#include <cmath>
#include <numbers>

#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include "detent/core/error.h"

namespace detent {
namespace {

template <class Optimizer, class Options>
std::unique_ptr<torch::optim::Optimizer> make_adam(const TrainingOptions& options,
                                                   std::vector<at::Tensor> parameters) {
  Options adam(options.learning_rate);
  adam.betas({options.beta1, options.beta2});
  adam.eps(options.epsilon).weight_decay(options.weight_decay).amsgrad(options.amsgrad);
  return std::make_unique<Optimizer>(std::move(parameters), adam);
}

}  // namespace

std::unique_ptr<torch::optim::Optimizer> make_optimizer(const TrainingOptions& options,
                                                        std::vector<at::Tensor> parameters) {
  using namespace torch::optim;
  switch (options.training_optimizer) {
    case OptimizerKind::kAdam:
      return make_adam<Adam, AdamOptions>(options, std::move(parameters));
    case OptimizerKind::kAdamW:
      return make_adam<AdamW, AdamWOptions>(options, std::move(parameters));
    case OptimizerKind::kSgd: {
      if (options.nesterov && (options.momentum <= 0 || options.dampening != 0)) {
        fail("nesterov: got momentum {} and dampening {}, expected a momentum above 0 and no dampening",
             options.momentum, options.dampening);
      }
      SGDOptions sgd(options.learning_rate);
      sgd.momentum(options.momentum).dampening(options.dampening).nesterov(options.nesterov);
      sgd.weight_decay(options.weight_decay);
      return std::make_unique<SGD>(std::move(parameters), sgd);
    }
  }
  DETENT_CHECK(false, "optimizer {}", static_cast<int>(options.training_optimizer));
  return nullptr;
}

double scheduled_learning_rate(const TrainingOptions& options, int64_t epoch) {
  if (options.learning_rate_schedule == ScheduleKind::kConstant) return options.learning_rate;
  const int64_t t_max = options.t_max.value_or(options.max_epochs);
  const double progress = static_cast<double>(std::min(epoch, t_max)) / static_cast<double>(t_max);
  return options.eta_min +
         (options.learning_rate - options.eta_min) * (1 + std::cos(std::numbers::pi * progress)) / 2;
}

void set_learning_rate(torch::optim::Optimizer& optimizer, double learning_rate) {
  for (auto& group : optimizer.param_groups()) group.options().set_lr(learning_rate);
}

}  // namespace detent

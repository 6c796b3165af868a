#include "detent/training/optimizer.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include "detent/core/error.h"
#include "detent/core/name_pattern.h"
#include "detent/training/optimizer_state.h"

namespace detent {
namespace {

using torch::optim::OptimizerParamGroup;

template <class Options>
std::unique_ptr<torch::optim::OptimizerOptions> adam_options(const TrainingOptions& options) {
  auto adam = std::make_unique<Options>(options.learning_rate);
  adam->betas({options.beta1, options.beta2});
  adam->eps(options.epsilon).weight_decay(options.weight_decay).amsgrad(options.amsgrad);
  return adam;
}

std::unique_ptr<torch::optim::OptimizerOptions> sgd_options(const TrainingOptions& options) {
  if (options.nesterov && (options.momentum <= 0 || options.dampening != 0)) {
    fail("nesterov: got momentum {} and dampening {}, expected a momentum above 0 and no dampening",
         options.momentum, options.dampening);
  }
  auto sgd = std::make_unique<torch::optim::SGDOptions>(options.learning_rate);
  sgd->momentum(options.momentum).dampening(options.dampening).nesterov(options.nesterov);
  sgd->weight_decay(options.weight_decay);
  return sgd;
}

std::unique_ptr<torch::optim::OptimizerOptions> optimizer_options(const TrainingOptions& options) {
  switch (options.training_optimizer) {
    case OptimizerKind::kAdam:
      return adam_options<torch::optim::AdamOptions>(options);
    case OptimizerKind::kAdamW:
      return adam_options<torch::optim::AdamWOptions>(options);
    case OptimizerKind::kSgd:
      return sgd_options(options);
  }
  DETENT_CHECK(false, "optimizer {}", static_cast<int>(options.training_optimizer));
  return nullptr;
}

std::unique_ptr<torch::optim::Optimizer> make_optimizer(OptimizerKind kind,
                                                        std::vector<OptimizerParamGroup> groups) {
  // Every group has options of its own: the defaults are never used.
  switch (kind) {
    case OptimizerKind::kAdam:
      return std::make_unique<torch::optim::Adam>(std::move(groups));
    case OptimizerKind::kAdamW:
      return std::make_unique<torch::optim::AdamW>(std::move(groups));
    case OptimizerKind::kSgd:
      return std::make_unique<torch::optim::SGD>(std::move(groups), torch::optim::SGDOptions(0));
  }
  DETENT_CHECK(false, "optimizer {}", static_cast<int>(kind));
  return nullptr;
}

/// For each parameter the index of the first pattern that matches it, or their number.
std::vector<size_t> group_indices(const std::vector<ParameterGroup>& groups,
                                  const std::vector<NamedParameter>& parameters) {
  std::vector<size_t> indices(parameters.size(), groups.size());
  for (size_t group = groups.size(); group-- > 0;) {
    const NamePattern pattern(groups[group].pattern, "parameter_groups");
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (pattern.matches(parameters[i].first)) indices[i] = group;
    }
  }
  for (size_t group = 0; group < groups.size(); ++group) {
    if (std::ranges::find(indices, group) != indices.end()) continue;
    std::string names;
    for (const auto& [name, tensor] : parameters) names += (names.empty() ? "" : ", ") + name;
    fail("parameter_groups: \"{}\" is the first to match no parameter (parameters: {})",
         groups[group].pattern, names);
  }
  return indices;
}

}  // namespace

ParameterOptimizer::ParameterOptimizer(const TrainingOptions& options, std::vector<NamedParameter> parameters,
                                       const std::vector<std::string>& of_quantizers)
    : options_(options), parameters_(std::move(parameters)) {
  std::vector<ParameterGroup> special = options.parameter_groups.groups;
  std::vector<size_t> indices = group_indices(special, parameters_);
  const size_t of_scales = special.size();
  const size_t of_widths = of_scales + 1;
  const size_t of_others = of_widths + 1;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (indices[i] != of_scales) continue;
    const std::string& name = parameters_[i].first;
    const bool is_owned = std::ranges::find(of_quantizers, name) != of_quantizers.end();
    indices[i] = !is_owned ? of_others : name.ends_with("_width") ? of_widths : of_scales;
  }
  special.push_back({"", options.scale_learning_rate, 0});
  const bool has_own = options.width_learning_rate.has_value();
  special.push_back({"", has_own ? options.width_learning_rate : options.scale_learning_rate, 0});
  std::vector<OptimizerParamGroup> groups;
  for (size_t group = 0; group <= special.size(); ++group) {
    std::vector<at::Tensor> members;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      if (indices[i] == group) members.push_back(parameters_[i].second);
    }
    if (members.empty()) continue;  // no parameter is like all others
    TrainingOptions own = options;
    if (group < special.size()) {
      own.learning_rate = special[group].learning_rate.value_or(options.learning_rate);
      own.weight_decay = special[group].weight_decay.value_or(options.weight_decay);
    }
    learning_rates_.push_back(own.learning_rate);
    groups.emplace_back(std::move(members), optimizer_options(own));
  }
  optimizer_ = make_optimizer(options.training_optimizer, std::move(groups));
}

void ParameterOptimizer::set_learning_rates(double epochs, int64_t step) {
  const double factor = warmup_factor(options_, step);
  for (size_t i = 0; i < learning_rates_.size(); ++i) {
    optimizer_->param_groups()[i].options().set_lr(
        factor * scheduled_learning_rate(options_, learning_rates_[i], epochs));
  }
}

void ParameterOptimizer::step() {
  optimizer_->step();
  // None instead of zeros: a training that is resumed has none either, and a zero plus a negative zero would
  // be another zero.
  for (auto& [name, parameter] : parameters_) parameter.mutable_grad() = at::Tensor();
}

StateDict ParameterOptimizer::state() const {
  return optimizer_state(*optimizer_, options_.training_optimizer, parameters_);
}

void ParameterOptimizer::load_state(const StateDict& state, const std::string& source) {
  load_optimizer_state(*optimizer_, options_.training_optimizer, parameters_, state, source);
}

double warmup_factor(const TrainingOptions& options, int64_t step) {
  if (step >= options.warmup_steps) return 1;
  return static_cast<double>(step + 1) / static_cast<double>(options.warmup_steps);
}

double scheduled_learning_rate(const TrainingOptions& options, double learning_rate, double epochs) {
  if (options.learning_rate_schedule == ScheduleKind::kConstant) return learning_rate;
  const bool counts_parts = options.learning_rate_schedule == ScheduleKind::kCosineSteps;
  const auto t_max = static_cast<double>(options.t_max.value_or(options.max_epochs));
  const double progress = std::min(counts_parts ? epochs : std::floor(epochs), t_max) / t_max;
  return options.eta_min +
         (learning_rate - options.eta_min) * (1 + std::cos(std::numbers::pi * progress)) / 2;
}

}  // namespace detent

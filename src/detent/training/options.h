#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "detent/core/fields.h"
#include "detent/training/duration.h"
#include "detent/training/parameter_groups.h"

namespace detent {

enum class OptimizerKind { kAdam, kAdamW, kSgd };
constexpr std::array<const char*, 3> enum_names(OptimizerKind) { return {"adam", "adamw", "sgd"}; }

enum class ScheduleKind { kCosine, kConstant, kCosineSteps };
constexpr std::array<const char*, 3> enum_names(ScheduleKind) {
  return {"cosine", "constant", "cosine_steps"};
}

/// Whether the last, smaller batch of an epoch is left out.
enum class DropLast { kAuto, kAlways, kNever };
constexpr std::array<const char*, 3> enum_names(DropLast) { return {"auto", "always", "never"}; }

enum class Monitor { kLoss, kAccuracy };
constexpr std::array<const char*, 2> enum_names(Monitor) { return {"loss", "accuracy"}; }

/// The cost of learned widths.
enum class WidthUnit { kAverageBits, kBits, kBytes, kMacBits };
constexpr std::array<const char*, 4> enum_names(WidthUnit) {
  return {"average_bits", "bits", "bytes", "mac_bits"};
}

/// How the inputs of an output are chosen where it may have few.
enum class ConnectionChoice { kGradual, kRandom, kMagnitude, kGiven };
constexpr std::array<const char*, 4> enum_names(ConnectionChoice) {
  return {"gradual", "random", "magnitude", "given"};
}

/// How to train. The names are those of MASE's `ch` where it has the option.
struct TrainingOptions {
  OptimizerKind training_optimizer = OptimizerKind::kAdam;
  double learning_rate = 1e-3;
  double weight_decay = 0;
  double momentum = 0.9;
  double dampening = 0;
  bool nesterov = false;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  bool amsgrad = false;
  ScheduleKind learning_rate_schedule = ScheduleKind::kCosine;
  std::optional<int64_t> t_max;
  double eta_min = 1e-6;
  int64_t warmup_steps = 0;
  std::optional<double> scale_learning_rate;
  std::optional<double> width_learning_rate;
  double ema_decay = 0;
  std::optional<int64_t> freeze_batch_norm_after;
  std::optional<int64_t> reestimate_batch_norm;
  int64_t quantize_after = 0;
  std::vector<int64_t> narrowing;
  int64_t narrowing_steps = 100;
  std::optional<double> width_budget;
  WidthUnit width_unit = WidthUnit::kAverageBits;
  double width_penalty = 1;
  double rounding_penalty = 1;
  std::vector<int64_t> fan_in;
  ConnectionChoice connections = ConnectionChoice::kGradual;
  double pruning_share = 0.5;
  double mixup = 0;
  double label_smoothing = 0;
  double distill_weight = 0.5;
  double distill_temperature = 4;
  std::vector<std::string> distill_nodes;
  double distill_nodes_weight = 1;
  ParameterGroups parameter_groups;
  std::optional<double> gradient_clip_norm;
  std::optional<double> gradient_clip_value;
  int64_t max_epochs = 20;
  std::optional<int64_t> max_steps;
  std::optional<Duration> max_time;
  Monitor monitor = Monitor::kLoss;
  std::optional<int64_t> patience;
  double min_delta = 0;
  int64_t batch_size = 128;
  DropLast drop_last = DropLast::kAuto;
  int64_t accumulate_grad_batches = 1;
  int64_t log_every_n_steps = 50;

  template <class Self, class Visitor>
  // NOLINTNEXTLINE(readability-function-size): a list
  static void fields(Self& self, Visitor& visit) {
    constexpr Between kPositive{1, 1e15};
    constexpr Between kNotNegative{0, 1e15};
    constexpr Between kGreaterThanZero{1e-300, 1e15};
    constexpr Between kDecay{0, 0.999999999};
    visit("training_optimizer", self.training_optimizer, "optimizer");
    visit("learning_rate", self.learning_rate, "step size of the optimizer", kNotNegative);
    visit("weight_decay", self.weight_decay, "weight decay", kNotNegative);
    visit("momentum", self.momentum, "sgd: momentum", kDecay);
    visit("dampening", self.dampening, "sgd: dampening", Between{0, 1});
    visit("nesterov", self.nesterov, "sgd: Nesterov momentum");
    visit("beta1", self.beta1, "adam, adamw: decay of the mean of gradients", kDecay);
    visit("beta2", self.beta2, "adam, adamw: decay of the mean of squared gradients", kDecay);
    visit("epsilon", self.epsilon, "adam, adamw: term in the denominator", kNotNegative);
    visit("amsgrad", self.amsgrad, "adam, adamw: AMSGrad");
    visit("learning_rate_schedule", self.learning_rate_schedule,
          "learning rate over the epochs; cosine_steps: updated at each step");
    visit("t_max", self.t_max, "cosine: epochs to reach eta_min; NA: max_epochs", kPositive);
    visit("eta_min", self.eta_min, "cosine: learning rate at the end", kNotNegative);
    visit("warmup_steps", self.warmup_steps, "optimizer steps of linear warm-up", kNotNegative);
    visit("scale_learning_rate", self.scale_learning_rate,
          "step size for parameters of quantizers, without weight_decay; NA: learning_rate", kNotNegative);
    visit("width_learning_rate", self.width_learning_rate,
          "step size for learned widths; NA: scale_learning_rate", kNotNegative);
    visit("ema_decay", self.ema_decay,
          "decay of the moving average of parameters, which is validated and saved instead of them; 0: none",
          kDecay);
    visit("freeze_batch_norm_after", self.freeze_batch_norm_after,
          "steps after which batch norm freezes its running statistics; NA: never", kNotNegative);
    visit("reestimate_batch_norm", self.reestimate_batch_norm,
          "training batches that re-estimate running statistics before each validation; NA: running averages",
          kPositive);
    visit("quantize_after", self.quantize_after, "steps in float before quantization", kNotNegative);
    visit("narrowing", self.narrowing, "widths of the first stages of learned quantizers, such as 8,6,4",
          Between{2, 24});
    visit("narrowing_steps", self.narrowing_steps, "steps of each stage", kPositive);
    visit("width_budget", self.width_budget, "limit on weights with learned widths, in width_unit; NA: none",
          kGreaterThanZero);
    visit("width_unit", self.width_unit,
          "average_bits per weight; bits or bytes of all; mac_bits: bits times products per sample");
    visit("width_penalty", self.width_penalty, "loss at twice the budget", kNotNegative);
    visit("rounding_penalty", self.rounding_penalty, "loss where learned roundings are halfway",
          kNotNegative);
    visit("fan_in", self.fan_in,
          "most inputs of an output in each layer, such as 8,6,6, or one number for all; 0: no limit");
    visit("connections", self.connections,
          "inputs to keep: gradual: largest weights, pruned during training; magnitude: largest weights, "
          "pruned at once; random; given: nonzero weights of the loaded network");
    visit("pruning_share", self.pruning_share, "gradual connections: share of the training that prunes",
          Between{0, 1});
    visit("mixup", self.mixup, "alpha of mixup's Beta distribution; 0: none", Between{0, 1000});
    visit("label_smoothing", self.label_smoothing, "label smoothing", Between{0, 0.999});
    visit("distill_weight", self.distill_weight, "with a teacher: its share in the loss", Between{0, 1});
    visit("distill_temperature", self.distill_temperature, "with a teacher: divisor of both logits",
          Between{1e-3, 1e6});
    visit("distill_nodes", self.distill_nodes,
          "with a teacher: nodes of both networks whose values are matched too");
    visit("distill_nodes_weight", self.distill_nodes_weight,
          "with distill_nodes: weight of their relative mean squared differences", kNotNegative);
    visit("parameter_groups", self.parameter_groups, "learning rates and weight decays by parameter");
    visit("gradient_clip_norm", self.gradient_clip_norm, "limit of the joint norm of all gradients; NA: none",
          kGreaterThanZero);
    visit("gradient_clip_value", self.gradient_clip_value, "limit of each gradient; NA: none",
          kGreaterThanZero);
    visit("max_epochs", self.max_epochs, "passes over the training set", kPositive);
    visit("max_steps", self.max_steps, "optimizer steps after which training ends; NA: no limit", kPositive);
    visit("max_time", self.max_time, "time after which training stops, for --resume; NA: none");
    visit("monitor", self.monitor, "validation value that makes an epoch the best");
    visit("patience", self.patience, "epochs without improvement that end training; NA: no limit", kPositive);
    visit("min_delta", self.min_delta, "least improvement of the monitored value", kNotNegative);
    visit("batch_size", self.batch_size, "samples per batch", Between{1, 1 << 24});
    visit("drop_last", self.drop_last,
          "drop a smaller last batch; auto: where batch norm would see one value per channel");
    visit("accumulate_grad_batches", self.accumulate_grad_batches, "batches per optimizer step", kPositive);
    visit("log_every_n_steps", self.log_every_n_steps,
          "batches between progress lines (not on a terminal), steps between metrics", kPositive);
  }
};

}  // namespace detent

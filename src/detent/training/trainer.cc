#include "detent/training/trainer.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>

#include "detent/autograd/interpreter.h"
#include "detent/autograd/tensor_memory.h"
#include "detent/autograd/torch_tensor.h"
#include "detent/core/error.h"
#include "detent/core/interruption.h"
#include "detent/core/progress.h"
#include "detent/engine/fast_executor.h"
#include "detent/evaluation/batches.h"
#include "detent/evaluation/evaluate.h"
#include "detent/evaluation/nonfinite_nodes.h"
#include "detent/training/classification.h"
#include "detent/training/epoch_batches.h"
#include "detent/training/gradient_clipping.h"
#include "detent/training/gradient_exchange.h"
#include "detent/training/improvement.h"
#include "detent/training/mixup.h"
#include "detent/training/narrowing.h"
#include "detent/training/norm_statistics.h"
#include "detent/training/objective.h"
#include "detent/training/optimizer.h"
#include "detent/training/quantizer_figures.h"
#include "detent/training/rounding_penalty.h"
#include "detent/training/sparse_layers.h"
#include "detent/training/weight_average.h"
#include "detent/training/width_budget.h"
#include "detent/training/worker_state.h"

namespace detent {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Why a worker wants to stop; 0 or 1 each, so that sums over workers count the votes.
struct StopVotes {
  float interrupted = 0;
  float terminated = 0;
  float hung_up = 0;
  float time_up = 0;
};

/// Sums over all workers beside the gradients of a step.
struct StepSums {
  StopVotes votes;
  float loss_sum = 0;
  float correct = 0;
  float count = 0;
};

template <class Sums>
std::span<float> floats_of(Sums& sums) {
  static_assert(sizeof(Sums) % sizeof(float) == 0);
  return {reinterpret_cast<float*>(&sums), sizeof(Sums) / sizeof(float)};
}

/// Runs the network once more. Nodes whose first result is not finite before it is quantized, in order.
std::vector<std::string> nonfinite_nodes(const Interpreter& interpreter, std::span<const Tensor> inputs) {
  std::vector<std::string> names;
  const TorchObserver observe = [&](const Node& node, std::string_view operand, const at::Tensor& value) {
    if (operand == "data_out_0" && !from_torch(value).is_finite()) names.push_back(node.name);
  };
  interpreter.outputs(to_torch(inputs), observe, ObservedValues::kBeforeQuantization);
  return names;
}

class Trainer {
 public:
  Trainer(Graph& graph, const Dataset& training_set, const TrainingOptions& options,
          const TrainingHooks& hooks, ProcessGroup& group)
      : graph_(graph),
        training_set_(training_set),
        options_(options),
        hooks_(hooks),
        group_(group),
        interpreter_(graph),
        objective_(graph, options, hooks.teacher),
        parameters_(interpreter_.named_trainable_parameters()),
        optimizer_(options, parameters_, interpreter_.quantizer_parameter_names()),
        average_(parameters_, options.ema_decay),
        widths_(graph, interpreter_, options),
        roundings_(parameters_, options.rounding_penalty),
        batches_(batches_of_epoch(graph, training_set.size(), options, group.size())),
        narrowing_(graph, options, total_steps()),
        sparse_layers_(graph, parameters_, options, total_steps(), hooks.resume != nullptr) {
    if (parameters_.empty()) fail("graph \"{}\" has nothing to train", graph.name());
    if (group.size() > 1) {
      interpreter_.gather_over_workers(
          [this](const at::Tensor& samples) { return gather_samples(samples, group_); });
    }
    if (hooks.resume != nullptr) {
      restore(*hooks.resume);
      narrowing_.resume(progress_.global_step);
      sparse_layers_.resume();
      interpreter_.update_quantizers();
    }
  }

  TrainingOutcome run(const Dataset& validation_set) {
    const TrainingOutcome outcome = run_epochs(validation_set);
    interpreter_.store_observers(graph_);
    return outcome;
  }

 private:
  TrainingOutcome run_epochs(const Dataset& validation_set) {
    while (!has_ended(progress_, options_)) {
      EpochReport report{.epoch = progress_.epoch, .learning_rate = learning_rate()};
      if (const TrainingOutcome stopped = run_epoch(report); was_stopped(stopped)) return stopped;
      if (const TrainingOutcome stopped = validate(validation_set, report); was_stopped(stopped))
        return stopped;
      // Networks that are wider than the one that is trained for do not count.
      report.is_best = narrowing_.is_done(progress_.global_step - 1) &&
                       sparse_layers_.is_done(progress_.global_step) && keeps_budget() &&
                       note_validation(progress_, report.validation, options_);
      report.quantizers = describe_quantizers(graph_);
      ++progress_.epoch;
      progress_.batches = 0;
      metrics_ = {};
      interpreter_.store_observers(graph_);
      if (hooks_.on_epoch) {
        const WeightAverage::InPlace averaged(average_);
        hooks_.on_epoch(report);
      }
      save();
      if (const TrainingOutcome stopped = agreed_outcome(); was_stopped(stopped)) return stopped;
    }
    const bool lost_patience = is_out_of_patience(progress_, options_);
    return {lost_patience ? TrainingEnd::kNoImprovement : TrainingEnd::kFinished, 0, progress_};
  }

  int64_t total_steps() const {
    const int64_t of_epoch =
        (batches_ + options_.accumulate_grad_batches - 1) / options_.accumulate_grad_batches;
    return std::min(options_.max_steps.value_or(of_epoch * options_.max_epochs),
                    of_epoch * options_.max_epochs);
  }
  bool has_all_steps() const { return options_.max_steps && progress_.global_step >= *options_.max_steps; }
  double learning_rate() const {
    return warmup_factor(options_, progress_.global_step) *
           scheduled_learning_rate(options_, options_.learning_rate, epochs_done());
  }
  /// Before the batch that was taken last.
  double epochs_done() const {
    const auto batches = static_cast<double>(std::max<int64_t>(progress_.batches - 1, 0));
    return static_cast<double>(progress_.epoch - 1) + batches / static_cast<double>(batches_);
  }

  bool keeps_budget() {
    const WeightAverage::InPlace averaged(average_);
    return widths_.is_kept();
  }

  /// The batches that are left of the epoch; fills what the report says of training.
  TrainingOutcome run_epoch(EpochReport& report) {
    const auto start = Clock::now();
    const int64_t count_before = metrics_.count;
    Progress shown(fmt::format("epoch {}/{}", progress_.epoch, options_.max_epochs), batches_,
                   {.begin = progress_.batches,
                    .plain_interval = options_.log_every_n_steps,
                    .shown = group_.is_first()});
    if (progress_.batches == 0) progress_.order_seed = agreed_order_seed();
    const std::vector<int64_t> order = shuffled_order(training_set_.size(), progress_.order_seed);
    std::vector<BatchSamples> all = cut_into_batches(order, options_.batch_size);
    all.resize(static_cast<size_t>(batches_));
    std::vector<BatchSamples> own;
    for (auto i = static_cast<size_t>(progress_.batches); i < all.size(); ++i)
      own.push_back(worker_share(all[i], group_));
    ReadAhead<Batch> loaded = load_batches(training_set_, own, progress_.epoch, hooks_.loader_threads);
    while (progress_.batches < batches_ && !has_all_steps()) {
      const auto samples = static_cast<double>(all[static_cast<size_t>(progress_.batches)].size());
      const Batch batch = loaded.take();
      ++progress_.batches;
      accumulate_gradients(batch, samples);
      const bool is_step =
          progress_.batches % options_.accumulate_grad_batches == 0 || progress_.batches == batches_;
      if (is_step) {
        if (const TrainingOutcome stopped = step(); was_stopped(stopped)) return stopped;
      }
      shown.update(progress_.batches, fmt::format("loss {:.4f}", metrics_.loss()));
    }
    const double elapsed = seconds_since(start);
    report.training = sum_over_workers({metrics_}, group_);
    report.global_step = progress_.global_step;
    const int64_t own_count = metrics_.count - count_before;
    report.samples_per_second = static_cast<double>(own_count * group_.size()) / elapsed;
    return {};
  }

  /// A signal ends the validation at its next batch; a resumed training repeats it. Time that is up does
  /// not: where validations take longer than max_time, none would ever be completed.
  TrainingOutcome validate(const Dataset& validation_set, EpochReport& report) {
    // Averaging what is averaged already could round once more.
    const Tensor before_averaging = gather_worker_states(worker_state(), group_);
    reestimate_statistics();
    average_running_statistics(graph_, group_);
    TrainingOutcome outcome;
    const auto has_signal = [&] {
      outcome = agreed_outcome();
      return outcome.end == TrainingEnd::kSignal;
    };
    std::optional<Metrics> metrics;
    try {
      const WeightAverage::InPlace averaged(average_);
      metrics = evaluate_until(has_signal, *FastExecutor().compile(graph_), graph_, validation_set,
                               options_.batch_size, group_, hooks_.loader_threads);
    } catch (const Error& error) {
      fail("validation of epoch {}: {}", progress_.epoch, error.what());
    }
    if (!metrics) {
      save(before_averaging);
      return outcome;
    }
    report.validation = *metrics;
    return {};
  }

  /// Statistics are those of the weights that are validated. Not while quantizers observe, which each run
  /// would move on.
  void reestimate_statistics() {
    NormStatistics statistics(graph_);
    if (!options_.reestimate_batch_norm || statistics.is_empty() || interpreter_.is_observing()) return;
    const WeightAverage::InPlace averaged(average_);
    const std::vector<int64_t> order = shuffled_order(training_set_.size(), progress_.order_seed);
    std::vector<BatchSamples> batches = cut_into_batches(order, options_.batch_size);
    batches.resize(static_cast<size_t>(std::min(*options_.reestimate_batch_norm, batches_)));
    std::vector<BatchSamples> own;
    for (const BatchSamples batch : batches) own.push_back(worker_share(batch, group_));
    ReadAhead<Batch> loaded = load_batches(training_set_, own, progress_.epoch, hooks_.loader_threads);
    for (size_t i = 0; i < own.size(); ++i) statistics.add(interpreter_, to_torch(loaded.take().inputs));
    statistics.finish();
  }

  /// The first worker's: those of the others differ where dropout drew for shares of other sizes.
  int64_t agreed_order_seed() {
    const int64_t seed = draw_order_seed();
    const auto seeds = group_.all_gather(std::as_bytes(std::span(&seed, 1)));
    int64_t first = 0;
    std::memcpy(&first, seeds.front().data(), sizeof(first));
    return first;
  }

  /// Adds the gradients of this worker's share of a batch of `samples` samples.
  void accumulate_gradients(const Batch& batch, double samples) {
    const at::Tensor labels = to_torch(batch.labels);
    const int64_t count = labels.size(0);
    set_phase();
    if (count == 0) return interpreter_.observe_without_samples();
    std::vector<at::Tensor> inputs = to_torch(batch.inputs);
    const Objective::Labels learned = mix_samples(inputs, labels, options_.mixup);
    Objective::NodeValues values;
    const at::Tensor output = interpreter_.run(inputs, objective_.observer(values));
    const at::Tensor loss = objective_.loss(output, inputs, learned, values);
    const auto loss_value = loss.item<double>();
    if (!std::isfinite(loss_value)) {
      interpreter_.gather_over_workers({});  // the others may not come here
      fail_at_step(fmt::format("the loss is {}", loss_value),
                   describe_nonfinite(graph_, nonfinite_nodes(interpreter_, batch.inputs)));
    }
    at::Tensor minimized = loss;
    const double progress = static_cast<double>(progress_.global_step) / static_cast<double>(total_steps());
    for (const at::Tensor& penalty : {widths_.penalty(), roundings_.penalty(progress)})
      if (penalty.defined()) minimized = minimized.add(penalty);
    const at::Tensor scaled =
        group_.size() == 1 ? minimized : minimized.mul(static_cast<double>(count) / samples);
    scaled.div(options_.accumulate_grad_batches).backward();
    const Metrics metrics{loss_value * static_cast<double>(count), count_correct(output, labels), count};
    metrics_.add(metrics);
    of_step_.add(metrics);
  }

  /// Settings that change in the course of a training, after as many steps.
  void set_phase() {
    const int64_t step = progress_.global_step;
    if (narrowing_.advance(step)) interpreter_.update_quantizers();
    interpreter_.set_rounding(step >= options_.quantize_after);
    const std::optional<int64_t>& frozen_after = options_.freeze_batch_norm_after;
    interpreter_.freeze_running_statistics(frozen_after && step >= *frozen_after);
  }

  [[noreturn]] void fail_at_step(const std::string& fault, const std::string& place) const {
    fail("{} in epoch {}, batch {} (step {}): {}; try a smaller learning rate than {}, or gradient_clip_norm",
         fault, progress_.epoch, progress_.batches, progress_.global_step + 1, place, options_.learning_rate);
  }

  TrainingOutcome step() {
    StepSums sums{own_votes(), static_cast<float>(of_step_.loss_sum), static_cast<float>(of_step_.correct),
                  static_cast<float>(of_step_.count)};
    sum_gradients(parameters_, floats_of(sums), group_);
    sparse_layers_.mask_gradients();
    try {
      clip_gradients(parameters_, options_);
    } catch (const Error& error) {
      fail_at_step("the gradient is not finite", error.what());
    }
    optimizer_.set_learning_rates(epochs_done(), progress_.global_step);
    optimizer_.step();
    sparse_layers_.after_step(progress_.global_step + 1);
    average_.update(progress_.global_step);
    ++progress_.global_step;
    of_step_ = {};
    reported_.add({sums.loss_sum, static_cast<int64_t>(sums.correct), static_cast<int64_t>(sums.count)});
    if (progress_.global_step % options_.log_every_n_steps == 0) report_steps();
    const TrainingOutcome outcome = outcome_of(sums.votes);
    const bool is_due = hooks_.save_every > 0 && progress_.global_step % hooks_.save_every == 0;
    if (is_due || was_stopped(outcome)) save();
    return outcome;
  }

  void report_steps() {
    const double rate = static_cast<double>(reported_.count) / seconds_since(last_report_);
    if (hooks_.on_step) {
      hooks_.on_step({progress_.epoch, progress_.global_step, learning_rate(), reported_, rate});
    }
    reported_ = {};
    last_report_ = Clock::now();
  }

  StopVotes own_votes() const {
    const int signal = StopSignals::received();
    const bool time_up = options_.max_time && seconds_since(start_) >= double(options_.max_time->seconds);
    return {signal == SIGINT ? 1.0F : 0, signal == SIGTERM ? 1.0F : 0, signal == SIGHUP ? 1.0F : 0,
            time_up ? 1.0F : 0};
  }

  /// kFinished where nobody voted to stop. At the end of training time does not matter, a signal does.
  TrainingOutcome outcome_of(const StopVotes& votes) const {
    if (votes.interrupted > 0) return {TrainingEnd::kSignal, SIGINT, progress_};
    if (votes.terminated > 0) return {TrainingEnd::kSignal, SIGTERM, progress_};
    if (votes.hung_up > 0) return {TrainingEnd::kSignal, SIGHUP, progress_};
    if (votes.time_up > 0 && !has_ended(progress_, options_)) return {TrainingEnd::kTimeUp, 0, progress_};
    return {TrainingEnd::kFinished, 0, progress_};
  }
  /// The outcome of the votes of all workers now.
  TrainingOutcome agreed_outcome() {
    StopVotes votes = own_votes();
    group_.all_reduce_sum(floats_of(votes));
    return outcome_of(votes);
  }
  static bool was_stopped(const TrainingOutcome& outcome) { return outcome.end != TrainingEnd::kFinished; }

  WorkerState worker_state() { return {measured_, interpreter_, graph_}; }

  void save() {
    if (hooks_.save) save(gather_worker_states(worker_state(), group_));
  }
  void save(const Tensor& worker_states) {
    if (!hooks_.save) return;
    hooks_.save({progress_, state_dict(graph_), optimizer_.state(), average_.state(), worker_states});
  }

  void restore(const TrainingState& state) {
    const std::string& source = hooks_.resume_source;
    load_state_dict(graph_, state.network, source);
    optimizer_.load_state(state.optimizer, source);
    average_.load_state(state.averages, source);
    restore_worker_state(worker_state(), state.workers, group_, source);
    progress_ = state.progress;
    if (progress_.batches > batches_) {
      fail("{}: {} batches of an epoch are done, but it has {}", source, progress_.batches, batches_);
    }
  }

  Graph& graph_;
  const Dataset& training_set_;
  const TrainingOptions& options_;
  const TrainingHooks& hooks_;
  ProcessGroup& group_;
  Interpreter interpreter_;
  Objective objective_;
  std::vector<NamedParameter> parameters_;
  ParameterOptimizer optimizer_;
  WeightAverage average_;
  WidthBudget widths_;
  RoundingPenalty roundings_;
  int64_t batches_;  // of an epoch
  Narrowing narrowing_;
  SparseLayers sparse_layers_;

  TrainingProgress progress_;
  std::array<Metrics, 2> measured_;
  Metrics& metrics_ = measured_[0];   // of this worker, in this epoch
  Metrics& reported_ = measured_[1];  // of all workers, since the last report of steps
  Metrics of_step_;                   // of this worker, since the last step
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_report_ = start_;
};

}  // namespace

TrainingOutcome train(Graph& graph, const Dataset& training_set, const Dataset& validation_set,
                      const TrainingOptions& options, const TrainingHooks& hooks, ProcessGroup& group) {
  const TrainingOutcome outcome = Trainer(graph, training_set, options, hooks, group).run(validation_set);
  give_back_idle_tensor_memory();
  return outcome;
}

}  // namespace detent

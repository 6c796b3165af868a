#include "detent/training/trainer.h"

#include <chrono>
#include <cmath>
#include <limits>
#include <span>

#include "detent/core/error.h"
#include "detent/core/progress.h"
#include "detent/execution/interpreter.h"
#include "detent/execution/torch_tensor.h"
#include "detent/training/gradient_exchange.h"
#include "detent/training/loader.h"
#include "detent/training/optimizer.h"

namespace detent {
namespace {

class Trainer {
 public:
  Trainer(Graph& graph, const Dataset& training_set, const TrainingOptions& options, ProcessGroup& group)
      : graph_(graph),
        training_set_(training_set),
        options_(options),
        group_(group),
        interpreter_(graph, Interpreter::Mode::kTraining) {
    parameters_ = interpreter_.trainable_parameters();
    if (parameters_.empty()) fail("graph \"{}\" has nothing to train", graph.name());
    optimizer_ = make_optimizer(options, parameters_);
    batches_ = (training_set.size() + options.batch_size - 1) / options.batch_size;
  }

  /// Fills all of the report but validation and is_best.
  EpochReport run_epoch(int64_t epoch) {
    const auto start = std::chrono::steady_clock::now();
    EpochReport report{.epoch = epoch, .learning_rate = scheduled_learning_rate(options_, epoch - 1)};
    set_learning_rate(*optimizer_, report.learning_rate);
    Progress progress(fmt::format("epoch {}/{}", epoch, options_.max_epochs), batches_,
                      options_.log_every_n_steps);
    optimizer_->zero_grad();
    int64_t batch_index = 0;
    const std::vector<int64_t> order = shuffled_order(training_set_.size());
    for (size_t begin = 0; begin < order.size() && !finished();) {
      const size_t count = std::min(static_cast<size_t>(options_.batch_size), order.size() - begin);
      ++batch_index;
      report.training.add(run_batch(std::span(order).subspan(begin, count), epoch, batch_index));
      if (group_.is_first()) progress.update(batch_index, fmt::format("loss {:.4f}", report.training.loss()));
      begin += count;
    }
    report.training = sum_over_workers({report.training}, group_);
    average_running_statistics(graph_, group_);
    report.global_step = global_step_;
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    report.samples_per_second = static_cast<double>(report.training.count) / elapsed.count();
    return report;
  }

  bool finished() const { return options_.max_steps && global_step_ >= *options_.max_steps; }

 private:
  /// This worker's share of the batch.
  Metrics run_batch(std::span<const int64_t> samples, int64_t epoch, int64_t batch_index) {
    const auto rank = static_cast<size_t>(group_.rank());
    const auto workers = static_cast<size_t>(group_.size());
    const size_t first = samples.size() * rank / workers;
    const std::span<const int64_t> own =
        samples.subspan(first, samples.size() * (rank + 1) / workers - first);
    Metrics metrics;
    if (!own.empty()) {
      const double share = static_cast<double>(own.size()) / static_cast<double>(samples.size());
      metrics = accumulate_gradients(training_set_.batch(own), share, epoch, batch_index);
    }
    if (batch_index % options_.accumulate_grad_batches == 0 || batch_index == batches_) {
      sum_gradients(parameters_, group_);
      optimizer_->step();
      optimizer_->zero_grad();
      ++global_step_;
    }
    return metrics;
  }

  Metrics accumulate_gradients(const Batch& batch, double share, int64_t epoch, int64_t batch_index) {
    const at::Tensor labels = to_torch(batch.labels);
    const at::Tensor output = interpreter_.run(to_torch(batch.inputs));
    const at::Tensor loss = classification_loss(graph_, output, labels);
    const auto loss_value = loss.item<double>();
    if (!std::isfinite(loss_value)) {
      fail("the loss is {} in epoch {}, batch {}: try a smaller learning rate than {}", loss_value, epoch,
           batch_index, options_.learning_rate);
    }
    const at::Tensor scaled = group_.size() == 1 ? loss : loss.mul(share);
    scaled.div(options_.accumulate_grad_batches).backward();
    const int64_t count = labels.size(0);
    return {loss_value * static_cast<double>(count), count_correct(output, labels), count};
  }

  Graph& graph_;
  const Dataset& training_set_;
  const TrainingOptions& options_;
  ProcessGroup& group_;
  Interpreter interpreter_;
  std::vector<at::Tensor> parameters_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  int64_t batches_ = 0;
  int64_t global_step_ = 0;
};

}  // namespace

void train(Graph& graph, const Dataset& training_set, const Dataset& validation_set,
           const TrainingOptions& options, const std::function<void(const EpochReport&)>& on_epoch,
           ProcessGroup& group) {
  Trainer trainer(graph, training_set, options, group);
  double best_loss = std::numeric_limits<double>::infinity();
  for (int64_t epoch = 1; epoch <= options.max_epochs && !trainer.finished(); ++epoch) {
    EpochReport report = trainer.run_epoch(epoch);
    report.validation = evaluate(graph, validation_set, options.batch_size, group);
    report.is_best = report.validation.loss() < best_loss;
    best_loss = std::min(best_loss, report.validation.loss());
    on_epoch(report);
  }
}

}  // namespace detent

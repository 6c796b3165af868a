#include "detent/training/trainer.h"

#include <chrono>
#include <cmath>
#include <limits>

#include "detent/core/error.h"
#include "detent/core/progress.h"
#include "detent/execution/interpreter.h"
#include "detent/execution/torch_tensor.h"
#include "detent/training/loader.h"
#include "detent/training/optimizer.h"

namespace detent {
namespace {

class Trainer {
 public:
  Trainer(Graph& graph, const Dataset& training_set, const TrainingOptions& options)
      : graph_(graph),
        training_set_(training_set),
        options_(options),
        interpreter_(graph, Interpreter::Mode::kTraining) {
    const std::vector<at::Tensor> parameters = interpreter_.trainable_parameters();
    if (parameters.empty()) fail("graph \"{}\" has nothing to train", graph.name());
    optimizer_ = make_optimizer(options, parameters);
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
    for_each_batch(training_set_, shuffled_order(training_set_.size()), options_.batch_size,
                   [&](const Batch& batch) {
                     ++batch_index;
                     report.training.add(run_batch(batch, epoch, batch_index));
                     progress.update(batch_index, fmt::format("loss {:.4f}", report.training.loss()));
                     return !finished();
                   });
    report.global_step = global_step_;
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    report.samples_per_second = static_cast<double>(report.training.count) / elapsed.count();
    return report;
  }

  bool finished() const { return options_.max_steps && global_step_ >= *options_.max_steps; }

 private:
  Metrics run_batch(const Batch& batch, int64_t epoch, int64_t batch_index) {
    const at::Tensor labels = to_torch(batch.labels);
    const at::Tensor output = interpreter_.run(to_torch(batch.inputs));
    const at::Tensor loss = classification_loss(graph_, output, labels);
    const auto loss_value = loss.item<double>();
    if (!std::isfinite(loss_value)) {
      fail("the loss is {} in epoch {}, batch {}: try a smaller learning rate than {}", loss_value, epoch,
           batch_index, options_.learning_rate);
    }
    loss.div(options_.accumulate_grad_batches).backward();
    if (batch_index % options_.accumulate_grad_batches == 0 || batch_index == batches_) {
      optimizer_->step();
      optimizer_->zero_grad();
      ++global_step_;
    }
    const int64_t count = labels.size(0);
    return {loss_value * static_cast<double>(count), count_correct(output, labels), count};
  }

  Graph& graph_;
  const Dataset& training_set_;
  const TrainingOptions& options_;
  Interpreter interpreter_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  int64_t batches_ = 0;
  int64_t global_step_ = 0;
};

}  // namespace

void train(Graph& graph, const Dataset& training_set, const Dataset& validation_set,
           const TrainingOptions& options, const std::function<void(const EpochReport&)>& on_epoch) {
  Trainer trainer(graph, training_set, options);
  double best_loss = std::numeric_limits<double>::infinity();
  for (int64_t epoch = 1; epoch <= options.max_epochs && !trainer.finished(); ++epoch) {
    EpochReport report = trainer.run_epoch(epoch);
    report.validation = evaluate(graph, validation_set, options.batch_size);
    report.is_best = report.validation.loss() < best_loss;
    best_loss = std::min(best_loss, report.validation.loss());
    on_epoch(report);
  }
}

}  // namespace detent

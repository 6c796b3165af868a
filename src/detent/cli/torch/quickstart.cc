#include "detent/cli/network/quickstart.h"

#include "detent/autograd/initialize.h"
#include "detent/cli/torch/commands.h"
#include "detent/datasets/datasets.h"
#include "detent/datasets/training_splits.h"
#include "detent/training/trainer.h"

namespace detent {
namespace {

/// Without validation samples: nothing is chosen, what counts is the last epoch.
Metrics train_on_all(Graph& graph, const Dataset& samples, uint64_t seed, double learning_rate,
                     int64_t epochs) {
  TrainingOptions options;
  options.learning_rate = learning_rate;
  options.max_epochs = epochs;
  options.batch_size = 32;
  options.log_every_n_steps = 1000;
  Metrics last;
  TrainingHooks hooks;
  hooks.on_epoch = [&](const EpochReport& report) { last = report.training; };
  seed_everything(seed);  // what was trained before does not show
  train(graph, samples, *make_dataset_part(make_all_digits(), {}), options, hooks);
  return last;
}

}  // namespace

void run_training_quickstart(const TorchCommand& command) {
  const QuickstartTraining training = {[](Graph& graph, uint64_t seed) {
                                         seed_everything(seed);
                                         initialize_parameters(graph);
                                       },
                                       train_on_all};
  run_quickstart(command, &training);
}

}  // namespace detent

#include <cmath>
#include <limits>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ops/randn.h>

#include "detent/autograd/initialize.h"
#include "detent/autograd/torch_tensor.h"
#include "detent/engine/fast_executor.h"
#include "detent/evaluation/batches.h"
#include "detent/evaluation/evaluate.h"
#include "detent/formats/quant_spec.h"
#include "detent/graph/graph_parameters.h"
#include "detent/models/model.h"
#include "detent/training/epoch_batches.h"
#include "detent/training/optimizer.h"
#include "detent/training/trainer.h"

namespace detent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct TrainedRun {
  Graph graph;
  std::vector<EpochReport> reports;
};

TrainedRun train_model(const std::string& model, const std::string& dataset, const TrainingOptions& options,
                       void (*prepare)(Graph&) = nullptr) {
  const auto training_set = make_dataset(dataset, Split::kTrain);
  const auto validation_set = make_dataset(dataset, Split::kValidation);
  seed_everything(0);
  TrainedRun run{build_model(model, training_set->sample_shape(), training_set->class_count()), {}};
  initialize_parameters(run.graph);
  if (prepare != nullptr) prepare(run.graph);
  TrainingHooks hooks;
  hooks.on_epoch = [&](const EpochReport& report) { run.reports.push_back(report); };
  train(run.graph, *training_set, *validation_set, options, hooks);
  return run;
}

TEST(Loader, ShufflesAsPythonsDataLoader) {
  // torch.manual_seed(0); list of DataLoader(range(10), shuffle=True), twice
  seed_everything(0);
  EXPECT_THAT(shuffled_order(10, draw_order_seed()), ElementsAre(6, 7, 1, 4, 2, 0, 9, 8, 3, 5));
  EXPECT_THAT(shuffled_order(10, draw_order_seed()), ElementsAre(2, 4, 7, 0, 8, 9, 5, 3, 6, 1));
}

TEST(Loader, BatchesCoverTheOrderHoweverManyThreadsLoadThem) {
  const auto dataset = make_dataset("toy_tiny", Split::kTrain);
  const std::vector<int64_t> order = {7, 3, 500, 1, 0, 9, 8, 2, 5, 4};
  for (const int64_t threads : {0, 1, 4}) {
    const std::vector<BatchSamples> batches = cut_into_batches(order, 4);
    ReadAhead<Batch> loaded = load_batches(*dataset, batches, 0, threads);
    ASSERT_EQ(batches.size(), 3U);
    for (const BatchSamples batch : batches) {
      EXPECT_TRUE(loaded.take().inputs[0].equals(dataset->batch(batch).inputs[0]));
    }
    EXPECT_THAT(batches.back(), ElementsAre(5, 4));
  }
}

TEST(Schedule, CosineFallsFromTheLearningRateToEtaMin) {
  TrainingOptions options;
  options.eta_min = 0.2;
  options.max_epochs = 4;
  EXPECT_DOUBLE_EQ(scheduled_learning_rate(options, 1, 0), 1);
  EXPECT_DOUBLE_EQ(scheduled_learning_rate(options, 1, 2), 0.6);
  EXPECT_DOUBLE_EQ(scheduled_learning_rate(options, 1, 9), 0.2);
  options.t_max = 2;
  EXPECT_DOUBLE_EQ(scheduled_learning_rate(options, 1, 1), 0.6);
  options.learning_rate_schedule = ScheduleKind::kConstant;
  EXPECT_DOUBLE_EQ(scheduled_learning_rate(options, 1, 3), 1);
}

/// One parameter of value 1, gradient `gradient`, `steps` steps.
double after_steps(const TrainingOptions& options, double gradient, int steps) {
  at::Tensor parameter = to_torch(Tensor::from<float>({1}, std::vector<float>{1})).clone();
  parameter.set_requires_grad(true);
  ParameterOptimizer optimizer(options, {{"a", parameter}});
  for (int i = 0; i < steps; ++i) {
    parameter.mutable_grad() =
        to_torch(Tensor::from<float>({1}, std::vector<float>{static_cast<float>(gradient)})).clone();
    optimizer.step();
  }
  return parameter.item<double>();
}

TEST(Optimizer, HonoursEveryOption) {
  TrainingOptions sgd;
  sgd.training_optimizer = OptimizerKind::kSgd;
  sgd.learning_rate = 0.1;
  sgd.momentum = 0;
  EXPECT_NEAR(after_steps(sgd, 1, 2), 0.8, 1e-6);
  sgd.weight_decay = 0.5;
  EXPECT_NEAR(after_steps(sgd, 1, 1), 1 - 0.1 * 1.5, 1e-6);
  sgd.weight_decay = 0;
  sgd.momentum = 0.5;
  EXPECT_NEAR(after_steps(sgd, 1, 2), 1 - 0.1 - 0.15, 1e-6);
  sgd.dampening = 0.5;
  EXPECT_NEAR(after_steps(sgd, 1, 2), 1 - 0.1 - 0.1, 1e-6);
  sgd.dampening = 0;
  sgd.nesterov = true;
  EXPECT_NEAR(after_steps(sgd, 1, 1), 1 - 0.15, 1e-6);
  sgd.momentum = 0;
  EXPECT_THROW(after_steps(sgd, 1, 1), Error);

  TrainingOptions adam;
  adam.learning_rate = 0.1;
  EXPECT_NEAR(after_steps(adam, 3, 1), 0.9, 1e-6);
  adam.epsilon = 3;
  EXPECT_NEAR(after_steps(adam, 3, 1), 0.95, 1e-6);
  adam.epsilon = 1e-8;
  adam.weight_decay = 1;
  EXPECT_NEAR(after_steps(adam, -1, 1), 1, 1e-6);  // L2 term cancels the gradient
  adam.training_optimizer = OptimizerKind::kAdamW;
  EXPECT_NEAR(after_steps(adam, -1, 1), 1 * (1 - 0.1) + 0.1, 1e-6);  // decoupled
}

TEST(Train, ToyLearns) {
  const TrainedRun run = train_model("toy", "toy_tiny", {});
  EXPECT_GT(run.reports.back().validation.accuracy(), 0.95);
  EXPECT_EQ(run.reports.size(), 20U);
  EXPECT_EQ(run.reports.back().global_step, 80);
}

TEST(Train, DigitsNetworkLearns) {
  TrainingOptions options;
  options.max_epochs = 8;
  options.batch_size = 32;
  const TrainedRun run = train_model("digits_cnn", "digits", options);
  EXPECT_GT(run.reports.back().validation.accuracy(), 0.95);
}

TEST(Train, SameSeedSameBytes) {
  TrainingOptions options;
  options.max_epochs = 2;
  const StateDict a = state_dict(train_model("toy", "toy_tiny", options).graph);
  const StateDict b = state_dict(train_model("toy", "toy_tiny", options).graph);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(a[i].second.equals(b[i].second)) << a[i].first;
}

TEST(Train, StopsAtMaxStepsInTheMiddleOfAnEpoch) {
  TrainingOptions options;
  options.max_steps = 6;
  const TrainedRun run = train_model("toy", "toy_tiny", options);
  ASSERT_EQ(run.reports.size(), 2U);
  EXPECT_EQ(run.reports.back().global_step, 6);
  EXPECT_EQ(run.reports.back().training.count, 256);
}

TEST(Train, AccumulatedBatchesAreOneLargeBatch) {
  TrainingOptions large;
  large.training_optimizer = OptimizerKind::kSgd;
  large.max_epochs = 2;
  large.batch_size = 128;
  TrainingOptions small = large;
  small.batch_size = 32;
  small.accumulate_grad_batches = 4;
  const TrainedRun a = train_model("toy", "toy_tiny", large);
  const TrainedRun b = train_model("toy", "toy_tiny", small);
  EXPECT_EQ(a.reports.back().global_step, b.reports.back().global_step);
  const StateDict weights_a = state_dict(a.graph);
  const StateDict weights_b = state_dict(b.graph);
  for (size_t i = 0; i < weights_a.size(); ++i) {
    for (size_t j = 0; j < weights_a[i].second.values<float>().size(); ++j) {
      EXPECT_NEAR(weights_a[i].second.values<float>()[j], weights_b[i].second.values<float>()[j], 1e-4);
    }
  }
}

TEST(Train, QuantizationAwareTrainingLearnsThroughTheQuantizer) {
  TrainingOptions options;
  options.learning_rate = 1e-2;
  const TrainedRun run = train_model("toy", "toy_tiny", options, [](Graph& graph) {
    for (const char* name : {"seq_blocks_0", "seq_blocks_2", "seq_blocks_4"}) {
      graph.node(name).quantization["weight"] = parse_quant_spec_text("ternary:scaling_factor=true");
      graph.node(name).quantization["data_in_0"] = parse_quant_spec_text("fixed:width=8,frac_width=4");
    }
  });
  EXPECT_GT(run.reports.back().validation.accuracy(), 0.9);
}

TEST(Train, SaysWhereTheLossIsNoLongerFinite) {
  TrainingOptions options;
  options.training_optimizer = OptimizerKind::kSgd;
  options.learning_rate = 1e30;
  try {
    train_model("toy", "toy_tiny", options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("in epoch 1, batch"));
    EXPECT_THAT(error.what(), HasSubstr("smaller learning rate than 1e+30"));
  }
}

TEST(Metrics, MergeAsOne) {
  Metrics a{2.0, 3, 4};
  a.add({1.0, 1, 2});
  EXPECT_DOUBLE_EQ(a.loss(), 0.5);
  EXPECT_EQ(a.text(), "loss 0.5000, accuracy 0.6667 +- 0.1976 (4/6)");
  EXPECT_EQ(Metrics{}.accuracy(), 0);
}

TEST(Evaluate, DoesNotDependOnTheBatchSize) {
  const auto dataset = make_dataset("digits", Split::kTest);
  Graph graph = build_model("digits_cnn", dataset->sample_shape(), dataset->class_count());
  initialize_parameters(graph);
  const Metrics a = evaluate(*FastExecutor().compile(graph), graph, *dataset, 7);
  const Metrics b = evaluate(*FastExecutor().compile(graph), graph, *dataset, 1000);
  EXPECT_EQ(a.correct, b.correct);
  EXPECT_EQ(a.count, dataset->size());
  EXPECT_NEAR(a.loss(), b.loss(), 1e-5);
}

}  // namespace
}  // namespace detent

// Tests of what ends or bounds a training: patience, time, clipped gradients, values that are not finite;
// groups of parameters.

#include <algorithm>
#include <cmath>
#include <csignal>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>

#include "detent/autograd/initialize.h"
#include "detent/core/error.h"
#include "detent/engine/fast_executor.h"
#include "detent/evaluation/evaluate.h"
#include "detent/graph/graph_parameters.h"
#include "detent/models/model.h"
#include "detent/training/gradient_clipping.h"
#include "detent/training/improvement.h"
#include "detent/training/trainer.h"

namespace detent {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

Graph toy() {
  seed_everything(0);
  Graph graph = build_model("toy", {1, 2, 2}, 2);
  initialize_parameters(graph);
  return graph;
}

TEST(Improvement, PatienceComparesWithTheLastImprovementNotWithTheBest) {
  TrainingOptions options;
  options.min_delta = 0.1;
  options.patience = 2;
  TrainingProgress progress;
  std::vector<bool> best;
  std::vector<int64_t> without;
  for (const double loss : {1.0, 0.95, 0.91, 0.85, 0.9, 0.8}) {
    best.push_back(note_validation(progress, {loss, 0, 1}, options));
    without.push_back(progress.epochs_without_improvement);
  }
  EXPECT_THAT(best, ElementsAre(true, true, true, true, false, true));
  EXPECT_THAT(without, ElementsAre(0, 1, 2, 0, 1, 2));
  EXPECT_TRUE(is_out_of_patience(progress, options));
  options.patience.reset();
  EXPECT_FALSE(is_out_of_patience(progress, options));
}

TEST(Improvement, AccuracyRisesAndNaNNeverImproves) {
  TrainingOptions options;
  options.monitor = Monitor::kAccuracy;
  TrainingProgress progress;
  EXPECT_TRUE(note_validation(progress, {1, 5, 10}, options));
  EXPECT_TRUE(note_validation(progress, {9, 6, 10}, options));
  EXPECT_FALSE(note_validation(progress, {0, 6, 10}, options));
  EXPECT_EQ(progress.epochs_without_improvement, 1);
  EXPECT_EQ(progress.best, 0.6);
  options.monitor = Monitor::kLoss;
  EXPECT_FALSE(note_validation(progress, {std::nan(""), 6, 10}, options));
  // Not even where there is nothing to compare it with.
  TrainingProgress begun;
  EXPECT_FALSE(note_validation(begun, {std::nan(""), 6, 10}, options));
  EXPECT_FALSE(begun.best.has_value());
  EXPECT_EQ(begun.epochs_without_improvement, 1);
  EXPECT_FALSE(note_validation(begun, {HUGE_VAL, 6, 10}, options));
  EXPECT_FALSE(begun.best.has_value());
  EXPECT_TRUE(note_validation(begun, {1, 6, 10}, options));
}

TEST(TrainingLimits, PatienceEndsTraining) {
  const auto data = make_dataset("toy_tiny", Split::kTrain);
  TrainingOptions options;
  options.learning_rate = 0;  // nothing ever improves
  options.eta_min = 0;
  options.patience = 3;
  Graph graph = toy();
  const TrainingOutcome outcome = train(graph, *data, *data, options);
  EXPECT_EQ(outcome.end, TrainingEnd::kNoImprovement);
  EXPECT_EQ(outcome.progress.epoch, 5);  // the first is the best, then three
}

TEST(TrainingLimits, TimeStopsTrainingBetweenSteps) {
  const auto data = make_dataset("toy_tiny", Split::kTrain);
  TrainingOptions options;
  options.max_epochs = 1000000;
  options.max_time = Duration{1};
  Graph graph = toy();
  int saved_at = 0;
  TrainingHooks hooks;
  hooks.save = [&](const TrainingState& state) { saved_at = static_cast<int>(state.progress.global_step); };
  const TrainingOutcome outcome = train(graph, *data, *data, options, hooks);
  EXPECT_EQ(outcome.end, TrainingEnd::kTimeUp);
  EXPECT_GT(outcome.progress.global_step, 0);
  EXPECT_EQ(outcome.progress.global_step, saved_at);
}

std::vector<NamedParameter> parameters_with_gradients() {
  std::vector<NamedParameter> parameters = {
      {"a", at::ones({2})}, {"b", at::ones({1})}, {"without", at::ones({1})}};
  parameters[0].second.mutable_grad() = at::full({2}, 4.0F);
  parameters[1].second.mutable_grad() = at::full({1}, -2.0F);
  return parameters;
}

TEST(GradientClipping, ScalesAllWhereTheirNormIsTooLarge) {
  const std::vector<NamedParameter> parameters = parameters_with_gradients();
  TrainingOptions options;
  options.gradient_clip_norm = 10;
  clip_gradients(parameters, options);
  EXPECT_EQ(parameters[0].second.grad()[0].item<float>(), 4);
  options.gradient_clip_norm = 3;  // sqrt(16 + 16 + 4) = 6
  clip_gradients(parameters, options);
  EXPECT_NEAR(parameters[0].second.grad()[1].item<float>(), 2, 1e-6);
  EXPECT_NEAR(parameters[1].second.grad()[0].item<float>(), -1, 1e-6);
  EXPECT_FALSE(parameters[2].second.grad().defined());
}

TEST(GradientClipping, LimitsEachMagnitude) {
  const std::vector<NamedParameter> parameters = parameters_with_gradients();
  TrainingOptions options;
  options.gradient_clip_value = 3;
  clip_gradients(parameters, options);
  EXPECT_EQ(parameters[0].second.grad()[0].item<float>(), 3);
  EXPECT_EQ(parameters[1].second.grad()[0].item<float>(), -2);
}

TEST(GradientClipping, NamesTheGradientThatIsNotFinite) {
  const std::vector<NamedParameter> parameters = parameters_with_gradients();
  parameters[1].second.mutable_grad() = at::full({1}, std::numeric_limits<float>::infinity());
  TrainingOptions options;
  options.gradient_clip_norm = 3;
  EXPECT_THAT([&] { clip_gradients(parameters, options); },
              ThrowsMessage<Error>(HasSubstr("the gradient of \"b\" is inf")));
}

TEST(TrainingLimits, NamesTheNodeAndTheStepOfANaN) {
  const auto data = make_dataset("toy_tiny", Split::kTrain);
  Graph graph = toy();
  graph.node("seq_blocks_2").find_parameter("weight")->tensor.values<float>()[5] = std::nanf("");
  bool saved = false;
  TrainingHooks hooks;
  hooks.save = [&](const TrainingState&) { saved = true; };
  hooks.save_every = 1;
  EXPECT_THAT(
      [&] { train(graph, *data, *data, {}, hooks); },
      ThrowsMessage<Error>(AllOf(
          HasSubstr("the loss is nan in epoch 1, batch 1 (step 1)"),
          HasSubstr("the first node whose output is not finite is \"seq_blocks_2\" (linear), whose weight is "
                    "not finite either"))));
  EXPECT_FALSE(saved);
}

/// toy_tiny with a sample, number 200, that is not finite.
class BrokenSamples final : public Dataset {
 public:
  explicit BrokenSamples(const Dataset& original)
      : Dataset(original.sample_shape(), original.class_count(),
                {original.labels().begin(), original.labels().end()}, "broken samples"),
        original_(original) {}

 private:
  void copy_sample(int64_t index, std::span<float> target) const override {
    const Batch batch = original_.batch(std::span(&index, 1));
    std::ranges::copy(batch.inputs[0].values<float>(), target.begin());
    if (index == 200) target[0] = std::nanf("");
  }

  const Dataset& original_;
};

TEST(TrainingLimits, AValidationThatIsNotFiniteIsAnError) {
  const auto data = make_dataset("toy_tiny", Split::kTrain);
  Graph graph = toy();
  bool saved = false;
  TrainingHooks hooks;
  hooks.save = [&](const TrainingState&) { saved = true; };
  EXPECT_THAT([&] { train(graph, *data, BrokenSamples(*data), {}, hooks); },
              ThrowsMessage<Error>(AllOf(HasSubstr("validation of epoch 1: the loss of graph \"toy\" on "
                                                   "samples 128 to 255 of broken samples is nan"),
                                         HasSubstr("first node whose output is not finite is \"x\""))));
  EXPECT_FALSE(saved);
}

/// Stands for any other way to run a network.
TEST(TrainingLimits, AnEvaluationNamesTheNodeOfANaN) {
  const auto data = make_dataset("toy_tiny", Split::kTest);
  Graph graph = toy();
  graph.node("seq_blocks_2").find_parameter("bias")->tensor.values<float>()[3] = std::nanf("");
  const auto message = AllOf(HasSubstr("is nan"), HasSubstr("\"seq_blocks_2\" (linear), whose bias is not"));
  const std::unique_ptr<const Program> program = FastExecutor().compile(graph);
  EXPECT_THAT([&] { evaluate(*program, graph, *data, 128); }, ThrowsMessage<Error>(message));
}

double weight_after_a_step(const std::vector<ParameterGroup>& groups, const char* name) {
  TrainingOptions options;
  options.training_optimizer = OptimizerKind::kSgd;
  options.momentum = 0;
  options.learning_rate = 0.1;
  options.weight_decay = 0.5;
  options.parameter_groups.groups = groups;
  const std::vector<NamedParameter> parameters = {
      {"conv1.weight", at::ones({1})}, {"conv1.bias", at::ones({1})}, {"fc.weight", at::ones({1})}};
  ParameterOptimizer optimizer(options, parameters);
  optimizer.set_learning_rates(0, 0);
  for (const auto& [key, parameter] : parameters) parameter.mutable_grad() = at::ones({1});
  optimizer.step();
  for (const auto& [key, parameter] : parameters) {
    EXPECT_FALSE(parameter.grad().defined());
    if (key == name) return parameter[0].item<double>();
  }
  return 0;
}

TEST(ParameterGroups, HaveTheirOwnLearningRateAndWeightDecay) {
  const std::vector<ParameterGroup> groups = {{".*bias", {}, 0.0}, {"conv1.*", 0.2, {}}};
  EXPECT_NEAR(weight_after_a_step(groups, "conv1.bias"), 1 - 0.1, 1e-6);
  EXPECT_NEAR(weight_after_a_step(groups, "conv1.weight"), 1 - 0.2 * 1.5, 1e-6);
  EXPECT_NEAR(weight_after_a_step(groups, "fc.weight"), 1 - 0.1 * 1.5, 1e-6);
  EXPECT_NEAR(weight_after_a_step({{".*", 0.3, 0.0}}, "fc.weight"), 1 - 0.3, 1e-6);
}

TEST(ParameterGroups, RefusePatternsThatMatchNothing) {
  EXPECT_THAT(
      [] {
        weight_after_a_step({{"conv2.*", {}, 0.0}}, "fc.weight");
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("\"conv2.*\" is the first to match no parameter"),
                                 HasSubstr("conv1.weight, conv1.bias, fc.weight"))));
  EXPECT_THROW(weight_after_a_step({{".*", {}, 0.0}, {"fc.*", {}, 0.0}}, "fc.weight"), Error);
}

TEST(ParameterGroups, AreReadFromATable) {
  const Table table = {{".*bias", Table{{"weight_decay", 0}}}, {"fc.*", Table{{"learning_rate", 0.5}}}};
  const ParameterGroups groups = ParameterGroups::from_value(table, "x.toml");
  EXPECT_EQ(groups.groups, (std::vector<ParameterGroup>{{".*bias", {}, 0.0}, {"fc.*", 0.5, {}}}));
  EXPECT_EQ(ParameterGroups::from_value(groups.to_value(), ""), groups);
  const auto error = [](const Value& value, const char* message) {
    EXPECT_THAT([&] { ParameterGroups::from_value(value, "x.toml"); },
                ThrowsMessage<Error>(AllOf(HasSubstr("x.toml"), HasSubstr(message))));
  };
  error("text", "[parameter_groups.\"REGEX\"]");
  error(Table{{"(", Table()}}, "\"(\" is no regular expression");
  error(Table{{"a", 1}}, "expected a table");
  error(Table{{"a", Table{{"momentum", 1}}}}, "\"a\": unknown key \"momentum\"");
  error(Table{{"a", Table{{"weight_decay", -1}}}}, "got -1");
}

TEST(DurationText, IsReadAndWritten) {
  EXPECT_EQ(Duration::from_value("90s", "").seconds, 90);
  EXPECT_EQ(Duration::from_value("10m", "").seconds, 600);
  EXPECT_EQ(Duration::from_value("1h30m", "").seconds, 5400);
  EXPECT_EQ(Duration::from_value("2d", "").to_value(), Value("172800s"));
  for (const char* text : {"", "10", "m", "0s", "-5s", "1.5h", "5 m", "10x", "99999999999999999999s"}) {
    EXPECT_THAT([&] { Duration::from_value(text, "--max-time"); },
                ThrowsMessage<Error>(AllOf(HasSubstr("--max-time"), HasSubstr("30s, 10m, 1h30m"))))
        << text;
  }
  EXPECT_THROW(Duration::from_value(Value(30), ""), Error);
}

}  // namespace
}  // namespace detent

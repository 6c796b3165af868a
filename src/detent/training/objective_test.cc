#include "detent/training/objective.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/ops/log_softmax.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>

#include "detent/autograd/initialize.h"
#include "detent/autograd/torch_outputs_for_test.h"
#include "detent/core/error.h"
#include "detent/graph/builder.h"
#include "detent/training/classification.h"
#include "detent/training/optimizer.h"

namespace detent {
namespace {

using testing::HasSubstr;

/// x [N, 4] -> linear -> classes, in log-probabilities or not.
Graph classifier(int64_t classes, bool log_softmax = false) {
  GraphBuilder builder("classifier");
  NodeInput x = builder.linear("fc", builder.input("x", {4}), 4, classes);
  if (log_softmax) x = builder.call("log_softmax", {x}, {{"dim", 1}});
  Graph graph = builder.finish(x);
  initialize_parameters(graph);
  return graph;
}

class ObjectiveTest : public testing::Test {
 protected:
  ObjectiveTest() { seed_everything(3); }

  double loss(const Graph& graph, const TrainingOptions& options, const at::Tensor& output,
              const Graph* teacher = nullptr) const {
    return Objective(graph, options, teacher).loss(output, {inputs_}, labels_).item<double>();
  }

  const at::Tensor inputs_ = at::randn({5, 4});
  const at::Tensor labels_ = at::tensor({0, 2, 1, 1, 0}, at::kLong);
  const at::Tensor logits_ = at::randn({5, 3}).mul(2);
};

TEST_F(ObjectiveTest, IsTheCrossEntropyByDefault) {
  const Graph graph = classifier(3);
  EXPECT_EQ(loss(graph, {}, logits_), classification_loss(graph, logits_, labels_).item<double>());
}

TEST_F(ObjectiveTest, LabelSmoothingMixesUniformLabelsIn) {
  const at::Tensor log_probabilities = at::log_softmax(logits_.to(at::kDouble), 1);
  double expected = 0;
  for (int64_t i = 0; i < 5; ++i) {
    for (int64_t c = 0; c < 3; ++c) {
      const double label = labels_[i].item<int64_t>() == c ? 0.7 : 0;
      expected -= (label + 0.1) * log_probabilities[i][c].item<double>() / 5;
    }
  }
  TrainingOptions options;
  options.label_smoothing = 0.3;
  EXPECT_NEAR(loss(classifier(3), options, logits_), expected, 1e-6);
  EXPECT_NEAR(loss(classifier(3, true), options, at::log_softmax(logits_, 1)), expected, 1e-6);
}

TEST_F(ObjectiveTest, DistillationIsTheDivergenceOfSoftenedOutputs) {
  constexpr double kTemperature = 2.5;
  const Graph teacher = classifier(3);
  const at::Tensor wanted = torch_output(teacher, inputs_).to(at::kDouble).div(kTemperature);
  double divergence = 0;
  for (int64_t i = 0; i < 5; ++i) {
    const at::Tensor p = at::log_softmax(wanted[i], 0);
    const at::Tensor q = at::log_softmax(logits_[i].to(at::kDouble).div(kTemperature), 0);
    divergence += p.exp().mul(p.sub(q)).sum().item<double>() / 5;
  }
  const Graph graph = classifier(3);
  const double labels = loss(graph, {}, logits_);
  TrainingOptions options;
  options.distill_weight = 0.3;
  options.distill_temperature = kTemperature;
  EXPECT_NEAR(loss(graph, options, logits_, &teacher),
              0.7 * labels + 0.3 * kTemperature * kTemperature * divergence, 1e-6);
}

TEST_F(ObjectiveTest, DistillationLeadsTheOutputToTheTeachers) {
  const Graph teacher = classifier(3);
  const at::Tensor wanted = torch_output(teacher, inputs_);
  TrainingOptions options;
  options.distill_weight = 1;
  const Objective objective(teacher, options, &teacher);
  const at::Tensor there = wanted.clone().set_requires_grad(true);
  objective.loss(there, {inputs_}, labels_).backward();
  EXPECT_LT(there.grad().abs().max().item<double>(), 1e-6);
  const at::Tensor elsewhere = logits_.clone().set_requires_grad(true);
  objective.loss(elsewhere, {inputs_}, labels_).backward();
  const at::Tensor step = elsewhere.detach().sub(elsewhere.grad(), 0.5);
  EXPECT_LT(objective.loss(step, {inputs_}, labels_).item<double>(),
            objective.loss(elsewhere, {inputs_}, labels_).item<double>());
}

TEST_F(ObjectiveTest, TheTeacherMustHaveTheSameClasses) {
  const Graph teacher = classifier(4);
  std::string message;
  try {
    loss(classifier(3), {}, logits_, &teacher);
  } catch (const Error& error) {
    message = error.what();
  }
  EXPECT_THAT(message, HasSubstr("teacher: it gives outputs of shape [5, 4], the network of [5, 3]"));
}

TEST(Warmup, RisesLinearlyToTheScheduledRate) {
  TrainingOptions options;
  options.warmup_steps = 4;
  EXPECT_EQ(warmup_factor(options, 0), 0.25);
  EXPECT_EQ(warmup_factor(options, 3), 1);
  EXPECT_EQ(warmup_factor(options, 1000), 1);
  EXPECT_EQ(warmup_factor({}, 0), 1);
}

}  // namespace
}  // namespace detent

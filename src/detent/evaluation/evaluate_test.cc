#include "detent/evaluation/evaluate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "detent/core/error_of_for_test.h"
#include "detent/evaluation/batches.h"
#include "detent/evaluation/nonfinite_nodes.h"
#include "detent/graph/builder.h"

namespace detent {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

constexpr int64_t kClasses = 4;

/// Samples of one number, 0 to 9, whose labels are these modulo 4.
class Counted final : public Dataset {
 public:
  explicit Counted(bool has_labels = true) : Dataset({1}, kClasses, labels_of(has_labels), "counted") {}

 private:
  static std::vector<int64_t> labels_of(bool has_labels) {
    std::vector<int64_t> labels;
    for (int64_t i = 0; i < 10; ++i) labels.push_back(has_labels ? i % kClasses : -1);
    return labels;
  }
  void copy_sample(int64_t index, std::span<float> target) const override {
    target[0] = static_cast<float>(index);
  }
};

/// Gives the class of x % 4 a logit of `margin`, and that of 5 to the class 3.
class Classifier final : public Program {
 public:
  explicit Classifier(float margin) : margin_(margin) {}

  std::vector<Tensor> run(std::span<const Tensor> inputs, const Observation& observation) const override {
    most_ = std::max(most_, inputs[0].dim(0));
    Tensor logits(DType::kFloat32, {inputs[0].dim(0), kClasses});
    for (size_t i = 0; i < inputs[0].values<float>().size(); ++i) {
      const auto x = static_cast<size_t>(inputs[0].values<float>()[i]);
      logits.values<float>()[i * kClasses + (x == 5 ? 3 : x % kClasses)] = margin_;
    }
    const Node head{.name = "head", .op = "linear", .inputs = {}};
    if (observation.shows("head", "data_out_0")) observation.see(head, "data_out_0", logits);
    return {logits};
  }

  int64_t most_samples() const { return most_; }

 private:
  float margin_;
  mutable int64_t most_ = 0;
};

Graph network(bool ends_in_log_softmax = false) {
  GraphBuilder b("classifier");
  NodeInput x = b.linear("head", b.input("x", Shape{1}), 1, kClasses);
  if (ends_in_log_softmax) x = b.call("log_softmax", {x});
  return b.finish(x);
}

TEST(Evaluate, GivesLossAndAccuracyOfAllSamples) {
  const Classifier program(2);
  const Metrics metrics = evaluate(program, network(), Counted(), 4);
  EXPECT_EQ(metrics.correct, 9);
  EXPECT_EQ(metrics.count, 10);
  const double right = std::log(3 + std::exp(2.0)) - 2;
  EXPECT_NEAR(metrics.loss(), (9 * right + right + 2) / 10, 1e-12);
  EXPECT_EQ(program.most_samples(), 4);
  EXPECT_NEAR(evaluate(program, network(), Counted(), 100).loss(), metrics.loss(), 1e-12);
  // Where the network gives logarithms of probabilities they are taken as they are.
  EXPECT_NEAR(evaluate(program, network(true), Counted(), 4).loss(), -2 * 9 / 10.0, 1e-12);
}

TEST(Evaluate, BatchesDoNotChangeTheLoss) {
  for (const float margin : {0.1F, 0.3F, 0.7F, 1.1F, 1.9F, 2.3F}) {
    const double loss = evaluate(Classifier(margin), network(), Counted(), 1).loss();
    for (const int64_t batch : {2, 3, 4, 7, 10})
      EXPECT_EQ(evaluate(Classifier(margin), network(), Counted(), batch).loss(), loss)
          << margin << " " << batch;
  }
}

TEST(Evaluate, LogitsOfAnyMagnitudeHaveALoss) {
  EXPECT_NEAR(evaluate(Classifier(3e38F), network(), Counted(), 3).loss(), 3e37, 1e32);
}

TEST(Evaluate, NamesTheFirstNodeThatIsNotFinite) {
  EXPECT_THAT(error_of([] { evaluate(Classifier(NAN), network(), Counted(), 5); }),
              AllOf(HasSubstr("on samples 0 to 4 of counted"), HasSubstr("not finite is \"head\" (linear)")));
}

TEST(NonfiniteNodes, AreDescribedWithTheirParameters) {
  Graph graph = network();
  EXPECT_THAT(describe_nonfinite(graph, {}), HasSubstr("the outputs of all nodes are finite"));
  EXPECT_THAT(describe_nonfinite(graph, {"head", "output"}), EndsWith("not finite is \"head\" (linear)"));
  graph.node("head").own_parameter("weight")->tensor.values<float>()[2] = NAN;
  EXPECT_THAT(describe_nonfinite(graph, {"head"}),
              EndsWith("\"head\" (linear), whose weight is not finite either"));
}

/// As a node that cannot take the NaN of the one before it.
class Failing final : public Program {
 public:
  std::vector<Tensor> run(std::span<const Tensor>, const Observation& observation) const override {
    const Graph graph = network();
    const Tensor values = Tensor::from({2}, std::vector<float>{1, NAN});
    observation.see(graph.node("x"), "data_out_0", Tensor::from({1}, std::vector<float>{1}));
    observation.see(graph.node("head"), "data_in_0", values);
    observation.see(graph.node("head"), "data_out_0", values);
    observation.see(graph.node("head"), "data_out_1", values);
    fail("no index");
  }
};

TEST(NonfiniteNodes, AreThoseWhoseResultsAreNotFinite) {
  EXPECT_EQ(nonfinite_nodes(Failing(), {}), std::vector<std::string>{"head"});
}

TEST(Evaluate, WantsLabels) {
  EXPECT_THAT(error_of([] { evaluate(Classifier(1), network(), Counted(false), 5); }),
              HasSubstr("counted: the samples have no labels"));
}

TEST(Evaluate, StopsWhenItIsTold) {
  int asked = 0;
  const auto stop = [&] { return ++asked == 3; };
  EXPECT_FALSE(evaluate_until(stop, Classifier(1), network(), Counted(), 2, single_process(), 0).has_value());
  EXPECT_EQ(asked, 3);
}

/// Gives the label first, as scikit-learn's classifiers do.
class Labelled final : public Program {
 public:
  std::vector<Tensor> run(std::span<const Tensor> inputs, const Observation& observation) const override {
    Tensor logits = classifier_.run(inputs, observation)[0];
    return {Tensor(DType::kInt64, {inputs[0].dim(0)}), std::move(logits)};
  }

 private:
  Classifier classifier_{2};
};

TEST(Evaluate, TakesTheOutputOfClassesWhereTheFirstIsTheLabel) {
  GraphBuilder b("labelled");
  const NodeInput scores = b.linear("head", b.input("x", Shape{1}), 1, kClasses);
  const NodeInput label = b.call("argmax", {scores}, {{"dim", -1}, {"keepdim", false}});
  const Graph graph = b.finish({label, scores});
  EXPECT_EQ(class_output(graph), 1U);
  EXPECT_EQ(class_output(network()), 0U);
  EXPECT_EQ(evaluate(Labelled(), graph, Counted(), 3).text(),
            evaluate(Classifier(2), network(), Counted(), 3).text());
}

TEST(Metrics, RefuseOutputsThatAreNoClasses) {
  const Tensor labels = Tensor::from<int64_t>({2}, std::vector<int64_t>{0, 1});
  EXPECT_THAT(error_of([&] {
                classification_metrics(network(), Tensor(DType::kFloat32, {2, 3, 1}), labels);
              }),
              HasSubstr("the output has shape [2, 3, 1], expected [2, classes]"));
  EXPECT_THAT(error_of([&] {
                classification_metrics(network(), Tensor(DType::kFloat32, {2, 1}), labels);
              }),
              HasSubstr("label 1, expected one of 1 classes"));
  EXPECT_THAT(error_of([&] {
                classification_metrics(network(), Tensor(DType::kInt64, {2, 3}), labels);
              }),
              HasSubstr("the output is int64, expected float32 for classification"));
}

TEST(Batches, FollowPyTorchsOrder) {
  // torch.manual_seed(0); list of DataLoader(range(10), shuffle=True), twice
  MersenneTwister generator(0);
  EXPECT_THAT(shuffled_order(10, draw_order_seed(generator)), ElementsAre(6, 7, 1, 4, 2, 0, 9, 8, 3, 5));
  EXPECT_THAT(shuffled_order(10, draw_order_seed(generator)), ElementsAre(2, 4, 7, 0, 8, 9, 5, 3, 6, 1));
}

}  // namespace
}  // namespace detent

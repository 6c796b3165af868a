#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "detent/core/error_of_for_test.h"
#include "detent/core/log.h"
#include "detent/inference/integer_executor.h"
#include "detent/onnx/import_onnx.h"
#include "detent/onnx/model_for_test.h"
#include "detent/onnx/results_for_test.h"

// Trees and labels of strings around networks, of ai.onnx.ml; and sparse constants.

namespace detent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Floats = std::vector<float>;
using Ints = std::vector<int64_t>;
using Texts = std::vector<std::string>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<Tensor> run_model(const OnnxModelForTest& model, const Tensor& x) {
  const Graph graph = import_onnx(model.write());
  return IntegerExecutor().compile(graph)->run(std::vector<Tensor>{x});
}

Ints integers_of(const Tensor& tensor) {
  return {tensor.values<int64_t>().begin(), tensor.values<int64_t>().end()};
}

/// x0 <= 1 ? leaf 1 : (x1 < -0.5 ? leaf 3 : leaf 4), where NaN in x0 is true; and a tree of one leaf.
std::vector<OnnxAttribute> two_trees(const std::string& kind) {
  return {{"nodes_treeids", Ints{0, 0, 0, 0, 0, 7}},
          {"nodes_nodeids", Ints{0, 1, 2, 3, 4, 0}},
          {"nodes_featureids", Ints{0, 0, 1, 0, 0, 0}},
          {"nodes_values", Floats{1, 0, -0.5, 0, 0, 0}},
          {"nodes_modes", Texts{"BRANCH_LEQ", "LEAF", "BRANCH_LT", "LEAF", "LEAF", "LEAF"}},
          {"nodes_truenodeids", Ints{1, 0, 3, 0, 0, 0}},
          {"nodes_falsenodeids", Ints{2, 0, 4, 0, 0, 0}},
          {"nodes_missing_value_tracks_true", Ints{1, 0, 0, 0, 0, 0}},
          {kind + "_treeids", Ints{0, 0, 0, 7}},
          {kind + "_nodeids", Ints{1, 3, 4, 0}}};
}

struct TreeModel : OnnxModelForTest {
  TreeModel(const std::string& op, std::vector<OnnxAttribute> attributes,
            const std::vector<OnnxAttribute>& more, const Texts& outputs)
      : OnnxModelForTest(17) {
    input("x", {-1, 2});
    for (const std::string& name : outputs) output(name);
    attributes.insert(attributes.end(), more.begin(), more.end());
    node(op, {"x"}, outputs, attributes).set_domain("ai.onnx.ml");
  }
};

const Tensor kRows = Tensor::from({4, 2}, Floats{1, 0, 1.5, -1, 2, -0.5, kNan, 0});

TEST(Trees, GiveTheSumsOfTheirLeaves) {
  const std::vector<OnnxAttribute> targets = {{"target_ids", Ints{0, 1, 0, 1}},
                                              {"target_weights", Floats{10, 20, 30, 0.5}},
                                              {"n_targets", 2},
                                              {"base_values", Floats{100, 0}}};
  const TreeModel sums("TreeEnsembleRegressor", two_trees("target"), targets, {"y"});
  expect_near(run_model(sums, kRows).at(0), {110, 0.5, 100, 20.5, 130, 0.5, 110, 0.5});
  std::vector<OnnxAttribute> means = targets;
  means.emplace_back("aggregate_function", "AVERAGE");
  const TreeModel model("TreeEnsembleRegressor", two_trees("target"), means, {"y"});
  expect_near(run_model(model, kRows).at(0), {105, 0.25, 100, 10.25, 115, 0.25, 105, 0.25});
}

TEST(Trees, ScoresOfClassesChooseLabels) {
  const TreeModel model("TreeEnsembleClassifier", two_trees("class"),
                        {{"class_ids", Ints{2, 1, 0, 1}},
                         {"class_weights", Floats{3, 2, 4, 0.5}},
                         {"classlabels_int64s", Ints{30, 40, 50}}},
                        {"label", "scores"});
  const std::vector<Tensor> results = run_model(model, kRows);
  EXPECT_THAT(integers_of(results.at(0)), ElementsAre(50, 40, 30, 50));
  expect_near(results.at(1), {0, 0.5, 3, 0, 2.5, 0, 4, 0.5, 0, 0, 0.5, 3});
}

/// Two trees for two classes: the class of each of four leaves, its weight and more.
struct TwoClasses {
  Ints ids;
  Floats weights;
  const char* transform = "NONE";
  Floats base = {};
  OnnxAttribute labels = {"classlabels_strings", Texts{"no", "yes"}};

  TreeModel model() const {
    std::vector<OnnxAttribute> more = {
        {"class_ids", ids}, {"class_weights", weights}, {"post_transform", transform}, labels};
    if (!base.empty()) more.emplace_back("base_values", base);
    return {"TreeEnsembleClassifier", two_trees("class"), more, {"label", "scores"}};
  }
  std::string refusal() const {
    return error_of([&] { import_onnx(model().write()); });
  }
  /// Rows come to leaves 0 and 3, 1 and 3, 2 and 3, 0 and 3.
  void expect(const Ints& places, const std::vector<double>& scores) const {
    const std::vector<Tensor> results = run_model(model(), kRows);
    EXPECT_THAT(integers_of(results.at(0)), testing::ElementsAreArray(places));
    expect_near(results.at(1), scores);
  }
};

float logistic(float x) { return 1 / (1 + std::exp(-x)); }

/// As ONNX Runtime 1.30 and 1.32 do: positive weights are probabilities of the second class.
TEST(Trees, OneScoreStandsForTwoClasses) {
  const Ints first = {0, 0, 0, 0};
  TwoClasses{first, {0.5, 0.25, 0.125, 0.125}}.expect({1, 0, 0, 1},
                                                      {0.375, 0.625, 0.625, 0.375, 0.75, 0.25, 0.375, 0.625});
  TwoClasses{first, {0.5, 0.25, 0.125, 0.125}, "SOFTMAX", {0.25}}.expect(
      {1, 1, 0, 1}, {0.125, 0.875, 0.375, 0.625, 0.5, 0.5, 0.125, 0.875});
  for (const char* transform : {"NONE", "SOFTMAX", "SOFTMAX_ZERO"})
    TwoClasses{first, {-2, 1, 3, 0.5}, transform}.expect({0, 1, 1, 0},
                                                         {1.5, -1.5, -1.5, 1.5, -3.5, 3.5, 1.5, -1.5});
  const auto pair = [](float x) { return std::pair{logistic(-x), logistic(x)}; };
  const auto [a0, a1] = pair(-1.5F);
  const auto [b0, b1] = pair(1.5F);
  const auto [c0, c1] = pair(3.5F);
  TwoClasses{first, {-2, 1, 3, 0.5}, "LOGISTIC"}.expect({0, 1, 1, 0}, {a0, a1, b0, b1, c0, c1, a0, a1});
  const auto [p0, p1] = pair(0.625F);
  const auto [q0, q1] = pair(0.375F);
  const auto [r0, r1] = pair(0.25F);
  TwoClasses{first, {0.5, 0.25, 0.125, 0.125}, "LOGISTIC"}.expect({1, 0, 0, 1},
                                                                  {p0, p1, q0, q1, r0, r1, p0, p1});
  EXPECT_THAT((TwoClasses{first, {1, 1, 1, 1}, "PROBIT"}.refusal()),
              HasSubstr("post_transform PROBIT of one score for two classes, which is not supported"));
}

/// With two base values the first class alone has a score.
TEST(Trees, BaseValuesOfTwoClassesAreAddedToTheFirst) {
  const Ints first = {0, 0, 0, 0};
  const Ints second = {1, 1, 1, 1};
  TwoClasses{first, {-2, 1, 3, 0.5}, "NONE", {1, 7}}.expect({0, 1, 1, 0}, {-0.5, 0, 2.5, 0, 4.5, 0, -0.5, 0});
  TwoClasses{second, {-2, 1, 3, 0.5}}.expect({0, 1, 1, 0}, {0, -1.5, 0, 1.5, 0, 3.5, 0, -1.5});
  TwoClasses{second, {0.5, 0.25, 0.125, 0.125}, "LOGISTIC", {9}}.expect(
      {1, 0, 0, 1},
      {0.5, logistic(0.625F), 0.5, logistic(0.375F), 0.5, logistic(0.25F), 0.5, logistic(0.625F)});
  EXPECT_THAT((TwoClasses{second, {1, 1, 1, 1}, "NONE", {1, 2}}.refusal()),
              HasSubstr("two base_values with weights of the second class alone"));
  EXPECT_THAT((TwoClasses{{0, 1, 0, 1}, {1, 1, 1, 1}, "NONE", {1, 2}}.refusal()),
              HasSubstr("two base_values with weights of both classes"));
}

/// A row that comes to no weight of the second class has the first one's score alone.
TEST(Trees, RowsMayLackTheSecondClass) {
  TwoClasses{{0, 1, 0, 0}, {-2, 1, 3, 0.5}}.expect({0, 1, 1, 0}, {1.5, -1.5, 0.5, 1, -3.5, 3.5, 1.5, -1.5});
  EXPECT_THAT((TwoClasses{{0, 1, 0, 0}, {1, 1, 1, 1}, "NONE", {1}}.refusal()),
              HasSubstr("leaves that have no weight of one of two classes"));
}

TEST(Trees, ClassesWithoutAWeightAreNotChosen) {
  const auto of_three = [](const Ints& ids) {
    return TreeModel("TreeEnsembleClassifier", two_trees("class"),
                     {{"class_ids", ids},
                      {"class_weights", Floats{-3, -2, -4, -1}},
                      {"classlabels_int64s", Ints{30, 40, 50}}},
                     {"label", "scores"});
  };
  const std::vector<Tensor> results = run_model(of_three({2, 1, 0, 1}), kRows);
  EXPECT_THAT(integers_of(results.at(0)), ElementsAre(40, 40, 40, 40));
  expect_near(results.at(1), {0, -1, -3, 0, -3, 0, -4, -1, 0, 0, -1, -3});
  EXPECT_THAT(integers_of(run_model(of_three({2, 2, 2, 2}), kRows).at(0)), ElementsAre(50, 50, 50, 50));
}

TEST(Trees, DamagedOnesAreRefused) {
  const auto error = [](const char* name, const Ints& of) {
    std::vector<OnnxAttribute> trees = two_trees("target");
    for (OnnxAttribute& attribute : trees)
      if (attribute.name == name) attribute.value = of;
    const TreeModel model(
        "TreeEnsembleRegressor", trees,
        {{"target_ids", Ints{0, 0, 0, 0}}, {"target_weights", Floats{1, 1, 1, 1}}, {"n_targets", 1}}, {"y"});
    return error_of([&] { import_onnx(model.write()); });
  };
  EXPECT_THAT(error("nodes_truenodeids", {9, 0, 3, 0, 0, 0}), HasSubstr("tree 0 has no node 9"));
  EXPECT_THAT(error("nodes_falsenodeids", {2, 0, 0, 0, 0, 0}), HasSubstr("trees of more than 512 steps"));
  EXPECT_THAT(error("nodes_nodeids", {0, 1, 2, 3, 3, 0}), HasSubstr("node 3 occurs twice in tree 0"));
  EXPECT_THAT(error("target_nodeids", {1, 3, 5, 0}), HasSubstr("tree 0 has no node 5"));
  EXPECT_THAT(error("nodes_featureids", {0}), HasSubstr("lists of 6 and 1 nodes"));
}

onnx::TensorProto in_bytes(const std::vector<uint8_t>& values) {
  return onnx_tensor<uint8_t>("modes", {std::ssize(values)}, values);
}

/// Two trees: x0 against 1, then x1 against -0.5; and x1 against 2.
TreeModel ensemble(const std::vector<uint8_t>& modes, const std::vector<OnnxAttribute>& more) {
  std::vector<OnnxAttribute> attributes = {
      {"n_targets", 2},
      {"tree_roots", Ints{0, 2}},
      {"nodes_modes", in_bytes(modes)},
      {"nodes_featureids", Ints{0, 1, 1}},
      {"nodes_splits", onnx_tensor<float>("splits", {3}, {1, -0.5, 2})},
      {"nodes_truenodeids", Ints{1, 0, 2}},
      {"nodes_trueleafs", Ints{0, 1, 1}},
      {"nodes_falsenodeids", Ints{4, 1, 3}},
      {"nodes_falseleafs", Ints{1, 1, 1}},
      {"leaf_targetids", Ints{0, 1, 0, 1, 0}},
      {"leaf_weights", onnx_tensor<float>("weights", {5}, {1.5, -2, 3, 4, -0.5})}};
  attributes.insert(attributes.end(), more.begin(), more.end());
  return {"TreeEnsemble", {}, attributes, {"y"}};
}

/// Numbers of ONNX Runtime 1.32.
TEST(Trees, OfTheNewestVersionListLeavesApart) {
  const Tensor rows = Tensor::from({5, 2}, Floats{0, 0, 1, -1, 2, 3, -1, 2, kNan, kNan});
  const auto result = [&](const std::vector<uint8_t>& modes, const std::vector<OnnxAttribute>& more = {}) {
    return run_model(ensemble(modes, more), rows).at(0);
  };
  expect_near(result({0, 0, 0}), {3, -2, 4.5, 0, -0.5, 4, 3, -2, -0.5, 4});
  expect_near(result({0, 1, 2}, {{"aggregate_function", 0}}), {0, 1, 0.75, 2, 1.25, 0, 1.5, -1, -0.25, 2});
  expect_near(result({0, 0, 0}, {{"aggregate_function", 2}}), {3, -2, 1.5, 0, -0.5, 4, 3, -2, -0.5, 4});
  expect_near(result({3, 0, 5}, {{"aggregate_function", 3}}), {3, 0, 3, 0, 3, -2, -0.5, 4, 3, 0});
  expect_near(result({0, 0, 0}, {{"nodes_missing_value_tracks_true", Ints{1, 0, 1}}}),
              {3, -2, 4.5, 0, -0.5, 4, 3, -2, 3, -2});
  expect_near(result({6, 0, 6}, {{"membership_values", onnx_tensor<float>("m", {5}, {0, 2, kNan, -1, 3})}}),
              {0, 2, 2.5, 0, 3, -2, -0.5, 4, -0.5, 4});
  // ONNX Runtime takes 1 and 2 for each other.
  const double share = 1 / (1 + std::exp(-5.0));
  const double part = 1 / (1 + std::exp(-4.5));
  expect_near(result({0, 0, 0}, {{"post_transform", 1}}),
              {share, 1 - share, part, 1 - part, 1 - part, part, share, 1 - share, 1 - part, part});
  const auto error = [&](const std::vector<uint8_t>& modes) {
    return error_of([&] { import_onnx(ensemble(modes, {}).write()); });
  };
  EXPECT_THAT(error({0, 0}), HasSubstr("lists of 3 and 2 nodes"));
  EXPECT_THAT(error({0, 7, 0}), HasSubstr("mode 7, expected 0 to 6"));
  EXPECT_THAT(error({6, 0, 6}), HasSubstr("fewer sets of membership_values than nodes that ask for them"));
}

/// Numbers of ONNX Runtime 1.32 for TreeEnsembleRegressor with these transforms.
TEST(Trees, ResultsMayBeTransformed) {
  const auto result = [](const char* transform, const Floats& weights, const Floats& base) {
    const TreeModel model("TreeEnsembleRegressor", two_trees("target"),
                          {{"target_ids", Ints{0, 1, 1, 0}},
                           {"target_weights", weights},
                           {"base_values", base},
                           {"n_targets", 2},
                           {"post_transform", transform}},
                          {"y"});
    return run_model(model, kRows).at(0);
  };
  expect_near(result("SOFTMAX_ZERO", {1.5, 2, 0, -1}, {0, 0}),
              {1, 0, 0.0474258736F, 0.952574134F, 1, 0, 1, 0});
  expect_near(result("PROBIT", {0.25, 0.5, 0.125, 0.375}, {0.1F, 0.1F}),
              {0.597823739F, -1.28171253F, -0.0627056509F, 0.253353506F, -0.0627056509F, -0.755523622F,
               0.597823739F, -1.28171253F});
}

/// Their numbers, in the order of the file.
TEST(Strings, AreNumbers) {
  OnnxModelForTest model(17);
  model.input("x", {-1, 3});
  model.output("label");
  model.node("ArgMax", {"x"}, {"place"}, {{"axis", 1}, {"keepdims", 0}});
  model
      .node("LabelEncoder", {"place"}, {"name"},
            {{"keys_int64s", Ints{0, 1, 2}}, {"values_strings", Texts{"cat", "dog", "cow"}}})
      .set_domain("ai.onnx.ml");
  model
      .node("LabelEncoder", {"name"}, {"label"},
            {{"keys_strings", Texts{"cow", "cat"}},
             {"values_strings", Texts{"large", "small"}},
             {"default_string", "middle"}})
      .set_domain("ai.onnx.ml");
  const Tensor x = Tensor::from({3, 3}, Floats{1, 0, 0, 0, 1, 0, 0, 0, 1});
  testing::internal::CaptureStderr();
  set_up_logging("warning");
  EXPECT_THAT(integers_of(run_model(model, x).at(0)), ElementsAre(4, 5, 3));
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("strings are numbers here: output \"label\" gives 0 \"cat\", 1 \"dog\", 2 \"cow\", "
                        "3 \"large\", 4 \"small\", 5 \"middle\""));
  model.node("Cast", {"name"}, {"z"}, {{"to", 1}});
  model.output("z");
  EXPECT_THAT(error_of([&] { import_onnx(model.write()); }),
              HasSubstr("strings from numbers, or the reverse"));
}

/// ML.NET writes the column of labels that a network was trained with.
TEST(Strings, ThatPassByANetworkAreLeftOut) {
  OnnxModelForTest model(17);
  model.input("Label", {-1, 1}, onnx::TensorProto::STRING);
  model.input("x", {-1, 3});
  for (const char* name : {"label", "y", "same"}) model.output(name);
  model
      .node("LabelEncoder", {"Label"}, {"number"},
            {{"keys_strings", Texts{"a", "b"}}, {"values_int64s", Ints{1, 2}}})
      .set_domain("ai.onnx.ml");
  model.node("Cast", {"number"}, {"label"}, {{"to", 12}});
  model.node("Neg", {"x"}, {"y"});
  model.node("Identity", {"Label"}, {"same"});
  testing::internal::CaptureStderr();
  set_up_logging("warning");
  const Graph graph = import_onnx(model.write());
  EXPECT_THAT(
      testing::internal::GetCapturedStderr(),
      HasSubstr("model.onnx: left out are the inputs of strings \"Label\", and of the outputs what follows "
                "from them: \"label\", \"same\""));
  EXPECT_EQ(graph.input_types().size(), 1U);
  const std::vector<Tensor> results =
      IntegerExecutor().compile(graph)->run(std::vector<Tensor>{Tensor::from({1, 3}, Floats{1, -2, 3})});
  ASSERT_EQ(results.size(), 1U);
  expect_near(results[0], {-1, 2, -3});
}

TEST(SparseConstants, AreFilledWithZeros) {
  OnnxModelForTest model(17);
  model.input("x", {-1, 3});
  model.output("y");
  onnx::SparseTensorProto weight;
  *weight.mutable_values() = onnx_tensor<float>("w", {2}, {5, 7});
  *weight.mutable_indices() = onnx_tensor<int64_t>("", {2}, {1, 4});
  weight.add_dims(3);
  weight.add_dims(2);
  *model.graph().add_sparse_initializer() = weight;
  model.node("MatMul", {"x", "w"}, {"y"});
  const Tensor x = Tensor::from({1, 3}, Floats{1, 2, 3});
  expect_near(run_model(model, x).at(0), {21, 5});
  onnx::SparseTensorProto& rows = *model.graph().mutable_sparse_initializer(0);
  *rows.mutable_indices() = onnx_tensor<int64_t>("", {2, 2}, {0, 1, 2, 0});
  expect_near(run_model(model, x).at(0), {21, 5});
  *rows.mutable_indices() = onnx_tensor<int64_t>("", {2, 2}, {0, 1, 3, 0});
  EXPECT_THAT(error_of([&] { import_onnx(model.write()); }),
              HasSubstr("sparse tensor \"w\": index 3, expected 0 to 2"));
}

}  // namespace
}  // namespace detent

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

/// As ONNX Runtime 1.32 does: positive weights are probabilities of the second class.
TEST(Trees, OneScoreStandsForTwoClasses) {
  const auto of_weights = [](const Floats& weights, const char* transform) {
    return TreeModel("TreeEnsembleClassifier", two_trees("class"),
                     {{"class_ids", Ints{0, 0, 0, 0}},
                      {"class_weights", weights},
                      {"post_transform", transform},
                      {"classlabels_strings", Texts{"no", "yes"}}},
                     {"label", "scores"});
  };
  const std::vector<Tensor> shares = run_model(of_weights({0.5, 0.25, 0.125, 0.125}, "NONE"), kRows);
  EXPECT_THAT(integers_of(shares.at(0)), ElementsAre(1, 0, 0, 1));
  expect_near(shares.at(1), {0.375, 0.625, 0.625, 0.375, 0.75, 0.25, 0.375, 0.625});
  const std::vector<Tensor> scores = run_model(of_weights({-2, 1, 3, 0.5}, "LOGISTIC"), kRows);
  EXPECT_THAT(integers_of(scores.at(0)), ElementsAre(0, 1, 1, 0));
  const double share = 1 / (1 + std::exp(-1.5));
  EXPECT_NEAR(scores.at(1).values<float>()[0], share, 1e-6);
  EXPECT_NEAR(scores.at(1).values<float>()[2], 1 - share, 1e-6);
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

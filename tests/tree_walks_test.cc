#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "detent/core/parallel.h"
#include "detent/engine/fast_executor.h"
#include "detent/inference/integer_executor.h"
#include "detent/onnx/import_onnx.h"
#include "detent/onnx/model_for_test.h"

// Ensembles of trees as one step, against the operators that walk them.

namespace detent {
namespace {

constexpr int64_t kFeatures = 5;

/// Random trees of various depths, whose nodes use one of `modes` each.
struct DrawnTrees {
  std::vector<int64_t> trees, ids, features, if_true, if_false, missing;
  std::vector<float> values, weights;
  std::vector<std::string> modes;
  std::vector<int64_t> leaf_trees, leaf_ids, targets;

  void add_tree(std::mt19937& random, int64_t tree, int most_depth, const std::vector<std::string>& of) {
    int64_t next = 1;
    add_node(random, tree, 0, most_depth, next, of);
  }

  void add_node(std::mt19937& random, int64_t tree, int64_t id, int depth, int64_t& next,
                const std::vector<std::string>& of) {
    const bool is_leaf = depth == 0 || random() % 4 == 0;
    const int64_t first = next;
    trees.push_back(tree);
    ids.push_back(id);
    features.push_back(is_leaf ? 0 : static_cast<int64_t>(random() % kFeatures));
    values.push_back(static_cast<float>(random() % 9) / 4 - 1);
    modes.push_back(is_leaf ? "LEAF" : of[random() % of.size()]);
    missing.push_back(is_leaf ? 0 : static_cast<int64_t>(random() % 2));
    if_true.push_back(is_leaf ? 0 : first);
    if_false.push_back(is_leaf ? 0 : first + 1);
    if (is_leaf) {
      leaf_trees.push_back(tree);
      leaf_ids.push_back(id);
      targets.push_back(static_cast<int64_t>(random() % 2));
      weights.push_back(static_cast<float>(random() % 64) / 8 - 4);
      return;
    }
    next += 2;
    add_node(random, tree, first, depth - 1, next, of);
    add_node(random, tree, first + 1, depth - 1, next, of);
  }
};

Graph drawn_ensemble(std::mt19937& random, int trees, const std::vector<std::string>& modes,
                     bool has_missing) {
  DrawnTrees drawn;
  for (int tree = 0; tree < trees; ++tree) drawn.add_tree(random, tree, 1 + tree % 6, modes);
  OnnxModelForTest model(17);
  model.input("x", {-1, kFeatures});
  model.output("y");
  std::vector<OnnxAttribute> attributes = {
      {"nodes_treeids", drawn.trees},         {"nodes_nodeids", drawn.ids},
      {"nodes_featureids", drawn.features},   {"nodes_values", drawn.values},
      {"nodes_modes", drawn.modes},           {"nodes_truenodeids", drawn.if_true},
      {"nodes_falsenodeids", drawn.if_false}, {"target_treeids", drawn.leaf_trees},
      {"target_nodeids", drawn.leaf_ids},     {"target_ids", drawn.targets},
      {"target_weights", drawn.weights},      {"n_targets", 2}};
  if (has_missing) attributes.emplace_back("nodes_missing_value_tracks_true", drawn.missing);
  model.node("TreeEnsembleRegressor", {"x"}, {"y"}, attributes).set_domain("ai.onnx.ml");
  return import_onnx(model.write());
}

/// Values that thresholds meet, NaN and infinities among them.
Tensor drawn_rows(std::mt19937& random, int64_t rows) {
  Tensor x(DType::kFloat32, {rows, kFeatures});
  for (float& value : x.values<float>()) {
    value = static_cast<float>(random() % 17) / 8 - 1;
    if (random() % 16 == 0) value = std::numeric_limits<float>::quiet_NaN();
    if (random() % 32 == 0) value = std::numeric_limits<float>::infinity();
  }
  return x;
}

int64_t walks_of(const FastProgram& program, const Tensor& x) {
  const auto steps = program.profile(std::span(&x, 1), 1);
  return std::ranges::count(steps, "tree walk", &StepProfile::kernel);
}

TEST(TreeWalks, GiveWhatTheirOperatorsGive) {
  std::mt19937 random(1);
  for (const std::string mode : {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ"}) {
    for (const bool has_missing : {false, true}) {
      const Graph graph = drawn_ensemble(random, 12, {mode}, has_missing);
      const FastProgram program(graph);
      const IntegerProgram reference(graph);
      for (const int64_t rows : {1, 7, 2000}) {
        const Tensor x = drawn_rows(random, rows);
        EXPECT_EQ(walks_of(program, x), 1) << mode;
        EXPECT_TRUE(program.run(std::span(&x, 1)).at(0).equals(reference.run(std::span(&x, 1)).at(0)))
            << mode << ", " << rows << " rows";
      }
    }
  }
}

TEST(TreeWalks, NodesThatCompareInSeveralWaysStayApart) {
  std::mt19937 random(2);
  const Graph graph = drawn_ensemble(random, 8, {"BRANCH_LEQ", "BRANCH_GT"}, true);
  const FastProgram program(graph);
  const Tensor x = drawn_rows(random, 50);
  EXPECT_EQ(walks_of(program, x), 0);
  EXPECT_TRUE(program.run(std::span(&x, 1)).at(0).equals(IntegerProgram(graph).run(std::span(&x, 1)).at(0)));
}

/// An observer sees the columns that nodes compare, as without a walk.
TEST(TreeWalks, ShowWhatIsObserved) {
  std::mt19937 random(3);
  const Graph graph = drawn_ensemble(random, 5, {"BRANCH_LEQ"}, false);
  const Tensor x = drawn_rows(random, 9);
  const auto seen = [&](const Program& program) {
    std::vector<float> values;
    const auto see = [&](const Node& /*node*/, std::string_view operand, const Tensor& value) {
      if (operand != "data_out_0" || value.dtype() != DType::kFloat32) return;
      for (const float v : value.values<float>()) values.push_back(v == v ? v : 1000);
    };
    program.run(std::span(&x, 1), {see});
    return values;
  };
  EXPECT_EQ(seen(FastProgram(graph)), seen(IntegerProgram(graph)));
}

}  // namespace
}  // namespace detent

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "detent/core/convert.h"
#include "detent/core/error.h"
#include "detent/operators/onnx_import.h"

namespace detent {
namespace {

// Ensembles of decision trees become a walk of all trees at once, from their roots, as many steps as the
// deepest has: rows of indices [N, trees], which tables of all nodes turn into the next ones.

constexpr std::string_view kUnequal = "BRANCH_NEQ";
constexpr std::array<std::pair<std::string_view, const char*>, 6> kModes = {{{"BRANCH_LEQ", "le"},
                                                                             {"BRANCH_LT", "lt"},
                                                                             {"BRANCH_GTE", "ge"},
                                                                             {"BRANCH_GT", "gt"},
                                                                             {"BRANCH_EQ", "eq"},
                                                                             {kUnequal, "eq"}}};  // negated
constexpr std::string_view kLeaf = "LEAF";

/// Lists of all nodes of all trees, one after the other; a leaf leads to itself.
struct Trees {
  std::vector<int64_t> roots = {};
  std::vector<int64_t> feature = {};
  std::vector<float> threshold = {};
  std::vector<int64_t> if_true = {};
  std::vector<int64_t> if_false = {};
  std::vector<std::string> modes = {};
  std::vector<int64_t> missing = {};  // 1 where NaN is true
  int64_t depth = 1;
};

/// The largest float32 that compares with a threshold of 64 bits as all float32 do.
float float32_threshold(double threshold, const std::string& mode) {
  const auto near = static_cast<float>(threshold);
  const bool is_below = mode == "BRANCH_LEQ" || mode == "BRANCH_GT";
  const auto infinity = std::numeric_limits<float>::infinity();
  if (is_below && static_cast<double>(near) > threshold) return std::nextafter(near, -infinity);
  if (!is_below && static_cast<double>(near) < threshold) return std::nextafter(near, infinity);
  return near;
}

/// Numbers of 32 bits, or as a tensor of 64.
std::vector<double> numbers_of(const NodeImport& node, const std::string& name) {
  const std::string wide = name + "_as_tensor";
  if (!node.has_attribute(wide.c_str())) return node.numbers(name.c_str());
  const Tensor tensor = to_dtype(node.tensor(wide.c_str()), DType::kFloat64);
  return {tensor.values<double>().begin(), tensor.values<double>().end()};
}

using NodePlaces = std::map<std::pair<int64_t, int64_t>, int64_t>;  // by tree and node

NodePlaces places_of(const NodeImport& node) {
  const std::vector<int64_t> trees = node.integers("nodes_treeids", {});
  const std::vector<int64_t> ids = node.integers("nodes_nodeids", {});
  if (trees.size() != ids.size() || trees.empty()) fail("{} nodes in trees {}", ids.size(), trees.size());
  NodePlaces places;
  for (size_t i = 0; i < trees.size(); ++i) {
    if (!places.try_emplace({trees[i], ids[i]}, static_cast<int64_t>(i)).second)
      fail("node {} occurs twice in tree {}", ids[i], trees[i]);
  }
  return places;
}

/// Steps from the root to the deepest leaf; a walk may not come back.
int64_t depth_of(const Trees& trees) {
  std::vector<int64_t> level = trees.roots;
  for (int64_t depth = 0;; ++depth) {
    std::set<int64_t> next;
    for (const int64_t at : level) {
      const auto i = static_cast<size_t>(at);
      if (trees.if_true[i] == at && trees.if_false[i] == at) continue;
      next.insert({trees.if_true[i], trees.if_false[i]});
    }
    if (next.empty()) return std::max<int64_t>(depth, 1);
    constexpr int64_t kDeepest = 512;
    if (depth == kDeepest) fail("trees of more than {} steps", kDeepest);
    level.assign(next.begin(), next.end());
  }
}

Trees trees_of(const NodeImport& node, const NodePlaces& places) {
  const std::vector<int64_t> ids = node.integers("nodes_treeids", {});
  const std::vector<int64_t> if_true = node.integers("nodes_truenodeids", {});
  const std::vector<int64_t> if_false = node.integers("nodes_falsenodeids", {});
  const std::vector<double> values = numbers_of(node, "nodes_values");
  Trees trees{.feature = node.integers("nodes_featureids", {}), .modes = node.texts("nodes_modes")};
  trees.missing = node.integers("nodes_missing_value_tracks_true", {});
  trees.missing.resize(ids.size());
  for (const size_t count :
       {if_true.size(), if_false.size(), values.size(), trees.feature.size(), trees.modes.size()})
    if (count != ids.size()) fail("lists of {} and {} nodes", ids.size(), count);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i == 0 || ids[i] != ids[i - 1]) trees.roots.push_back(static_cast<int64_t>(i));
    const bool is_leaf = trees.modes[i] == kLeaf;
    const auto next = [&](int64_t id) {
      if (is_leaf) return static_cast<int64_t>(i);
      const auto found = places.find({ids[i], id});
      if (found == places.end() || found->second == static_cast<int64_t>(i))
        fail("tree {} has no node {}", ids[i], id);
      return found->second;
    };
    trees.if_true.push_back(next(if_true[i]));
    trees.if_false.push_back(next(if_false[i]));
    trees.threshold.push_back(float32_threshold(is_leaf ? 0 : values[i], trees.modes[i]));
    if (is_leaf) trees.feature[i] = 0;
  }
  trees.depth = depth_of(trees);
  return trees;
}

/// Tables of the trees as constants of the graph, and the steps of a walk.
class TreeWalk {
 public:
  TreeWalk(NodeImport& node, const Trees& trees, NodeInput x)
      : node_(node),
        trees_(trees),
        x_(std::move(x)),
        feature_(integers(trees.feature)),
        threshold_(node.constant_of(Tensor::from({std::ssize(trees.threshold)}, trees.threshold))),
        if_true_(integers(trees.if_true)),
        if_false_(integers(trees.if_false)),
        roots_(integers(trees.roots)) {
    for (const auto& [mode, op] : kModes) {
      if (std::ranges::find(trees.modes, mode) != trees.modes.end()) modes_.emplace_back(mode, op);
    }
  }

  /// The leaf of each tree: [N, trees].
  NodeInput leaves() {
    NodeInput at = roots_;
    for (int64_t step = 0; step < trees_.depth; ++step) {
      const NodeInput features = at_nodes(feature_, at);
      const NodeInput x = step == 0 ? node_.add("gather", {x_, features}, {{"dim", 1}})
                                    : node_.add("gather_elements", {x_, features}, {{"dim", 1}});
      at = node_.add("where", {holds(x, at), at_nodes(if_true_, at), at_nodes(if_false_, at)});
    }
    return at;
  }

 private:
  NodeInput integers(const std::vector<int64_t>& values) {
    return node_.constant_of(Tensor::from<int64_t>({std::ssize(values)}, values));
  }
  NodeInput at_nodes(const NodeInput& table, const NodeInput& at) {
    return node_.add("gather", {table, at}, {{"dim", 0}});
  }
  /// Where the nodes' `of` is 1.
  NodeInput marked(const std::vector<int64_t>& of, const NodeInput& at) {
    return node_.add("eq", {at_nodes(integers(of), at), NodeImport::integer_of(1)});
  }

  NodeInput holds(const NodeInput& x, const NodeInput& at) {
    const NodeInput threshold = at_nodes(threshold_, at);
    NodeInput result;
    for (const auto& [mode, op] : modes_) {
      NodeInput compared = node_.add(op, {x, threshold});
      if (mode == kUnequal) compared = node_.add("logical_not", {compared});
      if (modes_.size() > 1) {
        std::vector<int64_t> has_mode;
        for (const std::string& of : trees_.modes) has_mode.push_back(static_cast<int64_t>(of == mode));
        compared = node_.add("logical_and", {compared, marked(has_mode, at)});
      }
      result = mode == modes_.front().first ? compared : node_.add("logical_or", {result, compared});
    }
    if (modes_.empty()) result = node_.add("le", {x, threshold});  // leaves alone
    if (std::ranges::count(trees_.missing, 1) == 0) return result;
    const NodeInput missing = node_.add("logical_and", {node_.add("isnan", {x}), marked(trees_.missing, at)});
    return node_.add("logical_or", {result, missing});
  }

  NodeImport& node_;
  const Trees& trees_;
  NodeInput x_;
  NodeInput feature_;
  NodeInput threshold_;
  NodeInput if_true_;
  NodeInput if_false_;
  NodeInput roots_;
  std::vector<std::pair<std::string, std::string>> modes_;
};

/// Weights of leaves, [nodes, results], of lists that begin with `kind`.
struct LeafWeights {
  Tensor weights;
  Tensor marks;                     // 1 where there is a weight
  std::set<int64_t> results = {};   // that any leaf gives something to
  std::set<int64_t> in_every = {};  // that some tree gives something to whatever leaf a row comes to
  bool has_negative = false;
};

/// Results that all leaves of a tree have a weight for.
std::set<int64_t> results_in_every_row(const NodeImport& node, const NodePlaces& places,
                                       const Tensor& marks) {
  const std::vector<std::string> modes = node.texts("nodes_modes");
  std::set<int64_t> found;
  for (int64_t result = 0; result < marks.shape()[1]; ++result) {
    std::map<int64_t, bool> trees;
    for (const auto& [of, place] : places) {
      if (modes.at(static_cast<size_t>(place)) != kLeaf) continue;
      const bool has_weight =
          marks.values<float>()[static_cast<size_t>(place * marks.shape()[1] + result)] != 0;
      bool& all = trees.try_emplace(of.first, true).first->second;
      all = all && has_weight;
    }
    if (std::ranges::any_of(trees, [](const auto& tree) { return tree.second; })) found.insert(result);
  }
  return found;
}

/// The weight where a leaf gives none, so that it changes no result of the reduction.
float absent_weight(std::string_view reduction) {
  constexpr float kBeyondAll = std::numeric_limits<float>::infinity();
  return reduction == "amin" ? kBeyondAll : reduction == "amax" ? -kBeyondAll : 0;
}

LeafWeights leaf_weights(const NodeImport& node, const NodePlaces& places, const std::string& kind,
                         int64_t results, std::string_view reduction = "sum") {
  const auto list = [&](const char* suffix) { return node.integers((kind + suffix).c_str(), {}); };
  const std::vector<int64_t> trees = list("_treeids");
  const std::vector<int64_t> nodes = list("_nodeids");
  const std::vector<int64_t> ids = list("_ids");
  const std::vector<double> weights = numbers_of(node, kind + "_weights");
  for (const size_t count : {nodes.size(), ids.size(), weights.size()})
    if (count != trees.size()) fail("lists of {} and {} leaves", trees.size(), count);
  constexpr int64_t kMostWeights = int64_t{1} << 26;
  if (results < 1 || results > kMostWeights / std::ssize(places))
    fail("{} results of {} nodes", results, places.size());
  LeafWeights found{.weights = Tensor(DType::kFloat32, {std::ssize(places), results}),
                    .marks = Tensor(DType::kFloat32, {std::ssize(places), results})};
  std::ranges::fill(found.weights.values<float>(), absent_weight(reduction));
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto place = places.find({trees[i], nodes[i]});
    if (place == places.end()) fail("tree {} has no node {}", trees[i], nodes[i]);
    if (ids[i] < 0 || ids[i] >= results) fail("result {}, expected 0 to {}", ids[i], results - 1);
    const auto at = static_cast<size_t>(place->second * results + ids[i]);
    float& weight = found.weights.values<float>()[at];
    found.marks.values<float>()[at] = 1;
    const auto given = static_cast<float>(weights[i]);
    weight = std::isinf(weight) ? given : weight + given;
    found.results.insert(ids[i]);
    found.has_negative = found.has_negative || weights[i] < 0;
  }
  found.in_every = results_in_every_row(node, places, found.marks);
  return found;
}

/// [N, features] of float32.
NodeInput feature_rows(NodeImport& node) {
  NodeInput x = node.input(0);
  if (node.type(0).dtype != DType::kFloat32) x = node.add("cast", {x}, {{"dtype", "float32"}});
  if (node.rank(0) == 1) x = node.add("unsqueeze", {x, NodeImport::list_of({0})});
  return x;
}

bool has_leaf_without_weight(const Trees& trees, const Tensor& weights) {
  const int64_t results = weights.shape()[1];
  for (int64_t i = 0; i < std::ssize(trees.if_true); ++i) {
    const auto row =
        weights.values<float>().subspan(static_cast<size_t>(i * results), static_cast<size_t>(results));
    const auto at = static_cast<size_t>(i);
    const bool is_leaf = trees.if_true[at] == i && trees.if_false[at] == i;
    if (is_leaf && std::ranges::any_of(row, [](float weight) { return std::isinf(weight); })) return true;
  }
  return false;
}

/// The weights of the leaves that each row comes to, together: [N, results].
NodeInput leaf_sums(NodeImport& node, const Trees& trees, const Tensor& weights, const char* reduction) {
  const NodeInput leaves = TreeWalk(node, trees, feature_rows(node)).leaves();
  const NodeInput given = node.add("gather", {node.constant_of(weights), leaves}, {{"dim", 0}});
  const NodeInput sums = node.add(reduction, {given, NodeImport::list_of({1})});
  if (!has_leaf_without_weight(trees, weights)) return sums;
  const NodeInput is_absent = node.add("isinf", {sums});
  return node.add("where", {is_absent, node.constant_of(Tensor(DType::kFloat32, {1})), sums});
}

NodeInput added(NodeImport& node, const NodeInput& sums, const std::vector<double>& base) {
  Tensor values(DType::kFloat32, {std::ssize(base)});
  std::ranges::transform(base, values.values<float>().begin(),
                         [](double x) { return static_cast<float>(x); });
  return node.add("add", {sums, node.constant_of(values)});
}

NodeInput with_base(NodeImport& node, const NodeInput& sums, int64_t results) {
  const std::vector<double> base = numbers_of(node, "base_values");
  if (base.empty()) return sums;
  if (std::ssize(base) != results) fail("{} base values for {} results", base.size(), results);
  return added(node, sums, base);
}

void convert_tree_regressor(NodeImport& node) {
  constexpr std::array<std::pair<std::string_view, const char*>, 4> kAggregates = {
      {{"SUM", "sum"}, {"AVERAGE", "mean"}, {"MIN", "amin"}, {"MAX", "amax"}}};
  const std::string aggregate = node.text("aggregate_function", "SUM");
  const auto found =
      std::ranges::find(kAggregates, aggregate, &std::pair<std::string_view, const char*>::first);
  if (found == kAggregates.end())
    fail("aggregate_function \"{}\", expected SUM, AVERAGE, MIN or MAX", aggregate);
  const int64_t targets = node.integer("n_targets", 1);
  const NodePlaces places = places_of(node);
  const Tensor weights = leaf_weights(node, places, "target", targets, found->second).weights;
  const NodeInput sums =
      with_base(node, leaf_sums(node, trees_of(node, places), weights, found->second), targets);
  node.set_output(0, post_transformed(node, sums));
}

/// The second of two labels where the score is above `least`.
void set_binary_label(NodeImport& node, const NodeInput& score, double least) {
  const NodeInput is_second = node.add("gt", {score, NodeImport::number_of(least)});
  const NodeInput place = node.add("cast", {is_second}, {{"dtype", "int64"}});
  const bool has_dimension = node.type_of(score).shape.size() == 2;
  set_labels(node, has_dimension ? node.add("squeeze", {place, NodeImport::list_of({1})}) : place);
}

/// Scores of two classes of one score s: its probabilities, or [-s, s].
NodeInput scores_of_one(NodeImport& node, const NodeInput& score, bool is_probability) {
  const std::string transform = node.text("post_transform", "NONE");
  if (transform == "PROBIT") node.refuse("post_transform PROBIT of one score for two classes");
  if (is_probability && transform != "LOGISTIC") {
    const NodeInput other = node.add("sub", {NodeImport::number_of(1), score});
    return node.add("cat", {other, score}, {{"dim", 1}});
  }
  const NodeInput both = node.add("cat", {node.add("neg", {score}), score}, {{"dim", 1}});
  return transform == "LOGISTIC" ? node.add("sigmoid", {both}) : both;
}

/// One of two classes has weights alone. Where none is below 0, scores above 0.5 choose the second, else
/// those above 0; of weights of the first, that is the only score.
void convert_trees_of_one_class(NodeImport& node, const NodePlaces& places, const LeafWeights& given) {
  const std::vector<double> base = numbers_of(node, "base_values");
  const double least = given.has_negative ? 0 : 0.5;
  const bool has_first = given.results.contains(0);
  const Trees trees = trees_of(node, places);
  if (has_first && base.size() < 2) {
    const Tensor weights = leaf_weights(node, places, "class", 1).weights;
    const NodeInput score = with_base(node, leaf_sums(node, trees, weights, "sum"), 1);
    set_binary_label(node, score, least);
    return node.set_output(1, scores_of_one(node, score, !given.has_negative));
  }
  if (!has_first && base.size() == 2)
    node.refuse("two base_values with weights of the second class alone, which ONNX Runtime ignores,");
  if (!has_first && !given.in_every.contains(1)) node.refuse("leaves without a weight of the second class");
  if (!base.empty())
    node.warn(fmt::format("as in ONNX Runtime {} added, since only the {} class has weights",
                          has_first ? "the second base value is not" : "base values are not",
                          has_first ? "first" : "second"));
  NodeInput scores = leaf_sums(node, trees, given.weights, "sum");
  if (has_first) scores = added(node, scores, {base[0], 0});
  set_binary_label(node, node.add("select", {scores}, {{"dim", 1}, {"index", has_first ? 0 : 1}}), least);
  node.set_output(1, post_transformed(node, scores));
}

/// Where a row comes to weights of that class.
NodeInput has_weight(NodeImport& node, const Trees& trees, const LeafWeights& given) {
  return node.add("gt", {leaf_sums(node, trees, given.marks, "sum"), NodeImport::number_of(0)});
}

/// One column of a matrix, which stays one.
NodeInput column(NodeImport& node, const NodeInput& matrix, int64_t index) {
  return node.add("slice", {matrix},
                  {{"dims", Value(std::vector<int64_t>{1})},
                   {"starts", Value(std::vector<int64_t>{index})},
                   {"ends", Value(std::vector<int64_t>{index + 1})},
                   {"steps", Value(std::vector<int64_t>{1})}});
}

/// ONNX Runtime numbers the labels where both classes have weights.
void warn_of_binary_labels(NodeImport& node) {
  const ClassLabels labels = class_labels(node);
  if (labels.type != nullptr || labels.numbers.dtype() != DType::kInt64) return;
  const auto numbers = labels.numbers.values<int64_t>();
  if (numbers[0] == 0 && numbers[1] == 1) return;
  node.warn(fmt::format("labels are {} and {}, where ONNX Runtime gives 0 and 1", numbers[0], numbers[1]));
}

void convert_trees_of_two_classes(NodeImport& node, const NodePlaces& places, const LeafWeights& given) {
  const std::vector<double> base = numbers_of(node, "base_values");
  const Trees trees = trees_of(node, places);
  const bool is_complete = given.in_every.contains(1);
  if (base.size() > 1)
    node.refuse("two base_values with weights of both classes, which ONNX Runtime ignores,");
  if (!base.empty() && given.in_every.size() < 2)
    node.refuse("a base value with leaves that have no weight of one of two classes");
  warn_of_binary_labels(node);
  NodeInput scores = leaf_sums(node, trees, given.weights, "sum");
  if (!base.empty()) scores = added(node, scores, {base[0], 0});
  NodeInput chosen = node.add("select", {scores}, {{"dim", 1}, {"index", 1}});
  NodeInput result = post_transformed(node, scores);
  if (!is_complete) {
    // Rows without a weight of the second class have one score.
    const NodeInput marks = has_weight(node, trees, given);
    const NodeInput has_second = column(node, marks, 1);
    const NodeInput first = column(node, scores, 0);
    chosen = node.add("where", {has_second, column(node, scores, 1), first});
    result = node.add("where", {has_second, result, scores_of_one(node, first, false)});
  }
  set_binary_label(node, chosen, 0);
  node.set_output(1, result);
}

void convert_tree_classifier(NodeImport& node) {
  const int64_t classes = class_labels(node).numbers.numel();
  const NodePlaces places = places_of(node);
  const LeafWeights given = leaf_weights(node, places, "class", classes);
  if (classes == 2 && given.results.size() == 1) return convert_trees_of_one_class(node, places, given);
  if (classes == 2) return convert_trees_of_two_classes(node, places, given);
  const Trees trees = trees_of(node, places);
  const bool has_base = !numbers_of(node, "base_values").empty();
  const NodeInput scores = with_base(node, leaf_sums(node, trees, given.weights, "sum"), classes);
  NodeInput compared = scores;
  // A class without a weight is not chosen, though its score is 0.
  const bool lacks_class = std::ssize(given.results) != classes;
  const bool is_complete = std::ssize(given.in_every) == classes;
  if (!has_base && !is_complete && (lacks_class || given.has_negative)) {
    constexpr double kLeast = -std::numeric_limits<double>::infinity();
    compared = node.add("where", {has_weight(node, trees, given), scores, NodeImport::number_of(kLeast)});
  }
  set_labels(node, node.add("argmax", {compared}, {{"dim", -1}, {"keepdim", false}}));
  node.set_output(1, post_transformed(node, scores));
}

/// Inner nodes of TreeEnsemble, which come first, then leaves.
struct EnsembleLists {
  std::vector<int64_t> if_true;
  std::vector<int64_t> if_false;
  std::vector<int64_t> true_is_leaf;
  std::vector<int64_t> false_is_leaf;
  std::vector<int64_t> modes;
  std::vector<double> splits;
};

std::vector<double> doubles_of(const NodeImport& node, const char* name) {
  const Tensor tensor = to_dtype(node.tensor(name), DType::kFloat64);
  return {tensor.values<double>().begin(), tensor.values<double>().end()};
}

EnsembleLists ensemble_lists(const NodeImport& node) {
  const Tensor modes = to_dtype(node.tensor("nodes_modes"), DType::kInt64);
  EnsembleLists lists{.if_true = node.integers("nodes_truenodeids", {}),
                      .if_false = node.integers("nodes_falsenodeids", {}),
                      .true_is_leaf = node.integers("nodes_trueleafs", {}),
                      .false_is_leaf = node.integers("nodes_falseleafs", {}),
                      .modes = {modes.values<int64_t>().begin(), modes.values<int64_t>().end()},
                      .splits = doubles_of(node, "nodes_splits")};
  for (const size_t count :
       {lists.if_false.size(), lists.true_is_leaf.size(), lists.false_is_leaf.size(), lists.modes.size(),
        lists.splits.size(), node.integers("nodes_featureids", {}).size()})
    if (count != lists.if_true.size() || count == 0)
      fail("lists of {} and {} nodes", lists.if_true.size(), count);
  return lists;
}

/// The sets of the nodes that ask for membership, in their order; each but the last ends with NaN.
std::vector<std::vector<double>> member_sets(const NodeImport& node) {
  std::vector<std::vector<double>> sets(1);
  if (!node.has_attribute("membership_values")) return sets;
  for (const double value : doubles_of(node, "membership_values")) {
    if (std::isnan(value)) {
      sets.emplace_back();
    } else {
      sets.back().push_back(value);
    }
  }
  return sets;
}

/// A node that asks for membership becomes one for each member, the next where the one before is not it.
void write_out_members(Trees& trees, size_t at, const std::vector<double>& members) {
  const int64_t otherwise = trees.if_false[at];
  trees.modes[at] = "BRANCH_EQ";
  trees.threshold[at] = members.empty() ? std::nanf("") : static_cast<float>(members.front());
  for (size_t i = 1; i < members.size(); ++i) {
    trees.if_false[at] = std::ssize(trees.modes);
    trees.feature.push_back(trees.feature[at]);
    trees.threshold.push_back(static_cast<float>(members[i]));
    trees.if_true.push_back(trees.if_true[at]);
    trees.if_false.push_back(otherwise);
    trees.modes.emplace_back("BRANCH_EQ");
    trees.missing.push_back(0);
    at = trees.modes.size() - 1;
  }
}

Trees ensemble_trees(const NodeImport& node, int64_t leaves) {
  constexpr int64_t kMember = 6;
  const EnsembleLists lists = ensemble_lists(node);
  const int64_t inner = std::ssize(lists.modes);
  const auto place = [&](int64_t id, int64_t is_leaf) {
    const int64_t count = is_leaf != 0 ? leaves : inner;
    if (id < 0 || id >= count) fail("{} {}, of {}", is_leaf != 0 ? "leaf" : "node", id, count);
    return is_leaf != 0 ? inner + id : id;
  };
  Trees trees{.roots = node.integers("tree_roots", {}), .feature = node.integers("nodes_featureids", {})};
  if (trees.roots.empty()) fail("no tree_roots");
  for (const int64_t root : trees.roots) place(root, 0);
  trees.missing = node.integers("nodes_missing_value_tracks_true", {});
  for (size_t i = 0; i < lists.modes.size(); ++i) {
    if (lists.modes[i] < 0 || lists.modes[i] > kMember)
      fail("mode {}, expected 0 to {}", lists.modes[i], kMember);
    const bool is_member = lists.modes[i] == kMember;
    trees.modes.emplace_back(is_member ? "BRANCH_EQ" : kModes.at(static_cast<size_t>(lists.modes[i])).first);
    trees.threshold.push_back(float32_threshold(lists.splits[i], trees.modes.back()));
    trees.if_true.push_back(place(lists.if_true[i], lists.true_is_leaf[i]));
    trees.if_false.push_back(place(lists.if_false[i], lists.false_is_leaf[i]));
  }
  const auto count = static_cast<size_t>(inner + leaves);
  trees.feature.resize(count);
  trees.threshold.resize(count);
  trees.missing.resize(count);
  trees.modes.resize(count, std::string(kLeaf));
  for (int64_t leaf = inner; leaf < inner + leaves; ++leaf) {
    trees.if_true.push_back(leaf);
    trees.if_false.push_back(leaf);
  }
  const std::vector<std::vector<double>> sets = member_sets(node);
  size_t next_set = 0;
  for (size_t i = 0; i < lists.modes.size(); ++i) {
    if (lists.modes[i] != kMember) continue;
    if (next_set == sets.size()) fail("fewer sets of membership_values than nodes that ask for them");
    write_out_members(trees, i, sets[next_set++]);
  }
  trees.depth = depth_of(trees);
  return trees;
}

/// Weights of all nodes, [nodes, results]; inner ones have none.
Tensor ensemble_weights(const NodeImport& node, const Trees& trees, int64_t results, const char* reduction) {
  const std::vector<int64_t> targets = node.integers("leaf_targetids", {});
  const std::vector<double> given = doubles_of(node, "leaf_weights");
  constexpr int64_t kMostWeights = int64_t{1} << 26;
  if (results < 1 || results > kMostWeights / std::ssize(trees.modes))
    fail("{} results of {} nodes", results, trees.modes.size());
  Tensor weights(DType::kFloat32, {std::ssize(trees.modes), results});
  std::ranges::fill(weights.values<float>(), absent_weight(reduction));
  const auto inner = std::ssize(node.integers("nodes_featureids", {}));
  for (size_t i = 0; i < given.size(); ++i) {
    if (targets[i] < 0 || targets[i] >= results) fail("result {}, expected 0 to {}", targets[i], results - 1);
    const auto at = static_cast<size_t>((inner + static_cast<int64_t>(i)) * results + targets[i]);
    weights.values<float>()[at] = static_cast<float>(given[i]);
  }
  return weights;
}

void convert_tree_ensemble(NodeImport& node) {
  constexpr std::array<const char*, 4> kReductions = {"mean", "sum", "amin", "amax"};
  constexpr std::array<const char*, 5> kTransforms = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO",
                                                      "PROBIT"};
  const int64_t aggregate = node.integer("aggregate_function", 1);
  const int64_t transform = node.integer("post_transform", 0);
  if (aggregate < 0 || aggregate >= std::ssize(kReductions))
    fail("aggregate_function {}, expected 0 to 3", aggregate);
  if (transform < 0 || transform >= std::ssize(kTransforms))
    fail("post_transform {}, expected 0 to 4", transform);
  if (transform == 1 || transform == 2) {
    node.warn(fmt::format("post_transform {} is {}, as the standard says, where ONNX Runtime computes {}",
                          transform, kTransforms.at(static_cast<size_t>(transform)),
                          kTransforms.at(static_cast<size_t>(3 - transform))));
  }
  const int64_t leaves = std::ssize(node.integers("leaf_targetids", {}));
  if (leaves != std::ssize(doubles_of(node, "leaf_weights")))
    fail("lists of {} and {} leaves", leaves, doubles_of(node, "leaf_weights").size());
  const Trees trees = ensemble_trees(node, leaves);
  const char* const reduction = kReductions.at(static_cast<size_t>(aggregate));
  const Tensor weights = ensemble_weights(node, trees, node.integer("n_targets", 1), reduction);
  const NodeInput sums = leaf_sums(node, trees, weights, reduction);
  node.set_output(0, post_transformed(node, sums, kTransforms.at(static_cast<size_t>(transform))));
}

}  // namespace

OnnxConverterList tree_converters() {
  return {{"TreeEnsemble", convert_tree_ensemble},
          {"TreeEnsembleRegressor", convert_tree_regressor},
          {"TreeEnsembleClassifier", convert_tree_classifier}};
}

}  // namespace detent

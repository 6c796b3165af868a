#include "detent/passes/post_training/static_quantize.h"

#include <algorithm>
#include <map>
#include <vector>

#include "detent/graph/operators.h"
#include "detent/graph/traits.h"
#include "detent/passes/passes.h"

namespace detent {
namespace {

using Names = std::set<std::string, std::less<>>;

/// A score so far below the largest of its row counts for nothing: exp(-20) is 2e-9, a step of uint8 is 1 /
/// 255.
constexpr double kVanishes = 20;
/// exp(-104) is 0 in float32.
constexpr double kIsZero = 104;

/// Where what a softmax reads comes from.
class Scores {
 public:
  explicit Scores(const Graph& graph) : graph_(graph), types_(infer_shapes(graph)) {
    find_sources();
    find_scores();
    for (const Node& node : graph.nodes()) {
      if (!scores_.contains(node.name)) continue;
      if (is_masked_by_input(node)) {
        for (const NodeInput& input : node.inputs) keep_mask(input);
        by_input_.insert(node.name);
      }
      if (std::ranges::any_of(node.inputs,
                              [&](const NodeInput& input) { return by_input_.contains(input.node); }))
        by_input_.insert(node.name);
    }
  }

  /// Nodes that compute on masks that depend on an input, or on scores after such a mask: no samples tell
  /// their range, as there may be nothing masked in them.
  Names by_input() const {
    Names names;
    for (const std::string& name : by_input_)
      if (has_range(graph_.node(name))) names.insert(name);
    return names;
  }

  Names softmaxes_by_input() const {
    Names names;
    for (const Node& node : graph_.nodes()) {
      const auto* softmax = trait<Softmax>(node);
      if (softmax != nullptr && !softmax->log && by_input_.contains(node.inputs.front().node))
        names.insert(node.name);
    }
    return names;
  }

  /// Others between products and a softmax, each with the range from which on it holds masked scores.
  std::map<std::string, double, std::less<>> measured() const {
    std::map<std::string, double, std::less<>> limits;
    for (const std::string& name : scores_) {
      const Node& node = graph_.node(name);
      if (!has_range(node) || by_input_.contains(name)) continue;
      const bool takes_constant = std::ranges::any_of(node.inputs, [&](const NodeInput& input) {
        return is_tensor(input) && !sources_.at(input.node).is_score;
      });
      limits[name] = takes_constant ? kVanishes : kIsZero;
    }
    return limits;
  }

 private:
  struct Source {
    bool is_score = false;  // of sums of products, norms, rows: what weights or several inputs give
    bool is_of_input = false;
  };

  /// Quantized as codes, so its result has a range.
  bool has_range(const Node& node) const {
    return (trait<PairOperation>(node) != nullptr || trait<Unary>(node) != nullptr) &&
           types_.at(node.name).dtype == DType::kFloat32;
  }

  bool is_tensor(const NodeInput& input) const {
    return !input.is_constant() && !input.is_absent() && types_.at(value_name(input)).is_tensor();
  }

  bool gives_scores(const Node& node) const {
    if (role_of(node) != OperatorRole::kComputes) return false;
    const bool sums = !node.parameters.empty() || !find_operator(node.op).reduction_dims.empty();
    return sums || trait<Softmax>(node) != nullptr || multiplies_and_sums(node);
  }

  /// Whether several tensors give something else than a function of their elements.
  bool multiplies_and_sums(const Node& node) const {
    if (!std::holds_alternative<std::monostate>(trait_of(node))) return false;
    std::vector<Shape> shapes;
    for (const NodeInput& input : node.inputs) {
      if (is_tensor(input) && types_.at(value_name(input)).dtype == DType::kFloat32)
        shapes.push_back(types_.at(value_name(input)).shape);
    }
    if (shapes.size() < 2) return false;
    const Shape& result = types_.at(value_name(node.name, 0)).shape;
    return std::ranges::any_of(shapes, [&](const Shape& shape) { return !broadcasts_to(shape, result); });
  }

  static bool broadcasts_to(const Shape& shape, const Shape& result) {
    if (shape.size() > result.size()) return false;
    const auto last = result.end() - std::ssize(shape);
    return std::equal(shape.begin(), shape.end(), last,
                      [](int64_t size, int64_t of) { return size == of || size == 1; });
  }

  void find_sources() {
    for (const Node& node : graph_.nodes()) {
      Source source{.is_score = gives_scores(node), .is_of_input = role_of(node) == OperatorRole::kInput};
      for (const NodeInput& input : node.inputs) {
        if (input.is_constant() || input.is_absent()) continue;
        source.is_score = source.is_score || sources_.at(input.node).is_score;
        source.is_of_input = source.is_of_input || sources_.at(input.node).is_of_input;
      }
      sources_[node.name] = source;
    }
  }

  /// From each softmax back to where scores are computed.
  void find_scores() {
    std::vector<std::string> open;
    for (const Node& node : graph_.nodes())
      if (trait<Softmax>(node) != nullptr) open.push_back(node.inputs.front().node);
    while (!open.empty()) {
      const Node& node = graph_.node(open.back());
      open.pop_back();
      if (role_of(node) != OperatorRole::kComputes || gives_scores(node) || !scores_.insert(node.name).second)
        continue;
      for (const NodeInput& input : node.inputs)
        if (is_tensor(input)) open.push_back(input.node);
    }
  }

  /// Whether scores meet a mask, of floats or of bools, that an input gives.
  bool is_masked_by_input(const Node& node) const {
    bool has_scores = false;
    bool has_mask = false;
    for (const NodeInput& input : node.inputs) {
      if (!is_tensor(input)) continue;
      const Source& source = sources_.at(input.node);
      const DType dtype = types_.at(value_name(input)).dtype;
      has_scores = has_scores || source.is_score;
      has_mask = has_mask || (!source.is_score && source.is_of_input &&
                              (dtype == DType::kFloat32 || dtype == DType::kBool));
    }
    return has_scores && has_mask;
  }

  /// Marks the nodes that a mask is computed from.
  void keep_mask(const NodeInput& value) {
    std::vector<NodeInput> open = {value};
    while (!open.empty()) {
      const NodeInput next = open.back();
      open.pop_back();
      if (!is_tensor(next) || sources_.at(next.node).is_score || !sources_.at(next.node).is_of_input)
        continue;
      if (!by_input_.insert(next.node).second) continue;
      const Node& node = graph_.node(next.node);
      open.insert(open.end(), node.inputs.begin(), node.inputs.end());
    }
  }

  const Graph& graph_;
  ValueTypes types_;
  std::map<std::string, Source, std::less<>> sources_;
  Names scores_;  // between products and a softmax, masks too
  Names by_input_;
};

bool is_beyond(const Table& range, double limit) {
  double low = 0;
  double high = 0;
  const double* const min = range.find("min")->number(low);
  const double* const max = range.find("max")->number(high);
  const bool is_within = min != nullptr && max != nullptr && *max - *min <= limit;
  return range.contains("infinity_count") || !is_within;
}

}  // namespace

MaskedScores masked_scores(const Graph& graph, const PassContext& context) {
  constexpr int64_t kSamples = 16;
  const Scores scores(graph);
  MaskedScores masked{scores.by_input(), scores.softmaxes_by_input()};
  const auto limits = scores.measured();
  if (limits.empty()) return masked;
  List names;
  for (const auto& [name, limit] : limits) names.emplace_back(name);
  const Table profile = {
      {"by", "name"},
      {"target_activation_nodes", std::move(names)},
      {"profile_output_activation", true},
      {"num_samples", kSamples},
      {"exact_num_samples", true},
      {"allow_uncovered", true},
      {"activation_statistics", Table{{"range_min_max", Table()}}},
  };
  PassContext quiet = context.quiet();
  quiet.checkpoint_every = 0;
  Graph measured = graph;
  for (Node& node : measured.nodes()) node.statistics = {};
  find_pass("profile_statistics").run(measured, profile, quiet);
  for (const auto& [name, limit] : limits) {
    const Table* results = measured.node(name).statistics.find("data_out_0");
    if (results != nullptr && is_beyond(*results->find("range_min_max")->get_if<Table>(), limit))
      masked.in_float.insert(name);
  }
  return masked;
}

}  // namespace detent

#include "detent/onnx/import_steps.h"

#include <cmath>
#include <optional>
#include <unordered_map>

#include "detent/graph/operators.h"

namespace detent {
namespace {

/// Reads a graph upwards, from results to what they were computed of. Names of operators are what a pattern
/// is written in.
class Pattern {
 public:
  explicit Pattern(const Graph& graph) : graph_(graph) {
    for (const Node& node : graph.nodes()) {
      for (const NodeInput& input : node.inputs) ++readers_[input.node];
    }
  }

  /// The node that gives the input, if it is of that operator and nothing else reads it.
  const Node* giver(const NodeInput& input, std::string_view op) const {
    const Node* node = shared_giver(input, op);
    return node != nullptr && readers_.at(node->name) == 1 ? node : nullptr;
  }
  /// The same, whoever else reads it.
  const Node* shared_giver(const NodeInput& input, std::string_view op) const {
    if (input.is_constant() || input.result != 0) return nullptr;
    const Node& node = graph_.node(input.node);
    return node.op == op ? &node : nullptr;
  }
  size_t readers(const Node& node) const { return readers_.at(node.name); }

  /// The only element of a constant.
  std::optional<double> number(const NodeInput& input) const {
    double scratch = 0;
    if (input.is_constant()) {
      const double* found = input.constant.number(scratch);
      return found != nullptr ? std::optional(*found) : std::nullopt;
    }
    const Parameter* parameter = tensor(input);
    if (parameter == nullptr || parameter->tensor.numel() != 1) return std::nullopt;
    return static_cast<double>(parameter->tensor.values<float>()[0]);
  }
  /// A float32 constant of the network.
  const Parameter* tensor(const NodeInput& input) const {
    const Node* node = shared_giver(input, "get_attr");
    const Parameter* parameter = node != nullptr ? node->find_parameter("value") : nullptr;
    return parameter != nullptr && parameter->tensor.dtype() == DType::kFloat32 ? parameter : nullptr;
  }
  bool is_number(const NodeInput& input, double wanted) const {
    const auto found = number(input);
    return found && std::fabs(*found - wanted) <= 1e-6 * std::fabs(wanted);
  }

 private:
  const Graph& graph_;
  std::unordered_map<std::string, size_t> readers_;
};

/// The other of two inputs, where one satisfies a condition.
template <class Condition>
const NodeInput* beside(const Node& node, Condition is_it) {
  if (node.inputs.size() != 2) return nullptr;
  if (is_it(node.inputs[1])) return &node.inputs[0];
  return is_it(node.inputs[0]) ? &node.inputs[1] : nullptr;
}

/// mean(x) over the last dimension, which stays with size 1.
bool is_mean_of_last(const Node& mean, size_t rank) {
  if (mean.inputs.size() != 2 || !boolean_attribute(mean, "keepdim")) return false;
  const Value& dims = mean.inputs[1].constant;
  const auto last = static_cast<int64_t>(rank) - 1;
  return dims == Value(std::vector<int64_t>{-1}) || dims == Value(std::vector<int64_t>{last});
}

struct Normalized {
  NodeInput input;
  double epsilon = 0;
};

/// (x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps)
std::optional<Normalized> normalized(const Pattern& pattern, const Node& quotient, size_t rank) {
  const Node* centred = pattern.shared_giver(quotient.inputs[0], "sub");
  const Node* deviation = pattern.giver(quotient.inputs[1], "sqrt");
  if (centred == nullptr || deviation == nullptr) return std::nullopt;
  const Node* mean = pattern.giver(centred->inputs[1], "mean");
  const Node* shifted = pattern.giver(deviation->inputs[0], "add");
  if (mean == nullptr || shifted == nullptr || !is_mean_of_last(*mean, rank)) return std::nullopt;
  const auto is_number = [&](const NodeInput& input) { return pattern.number(input).has_value(); };
  const NodeInput* variance_input = beside(*shifted, is_number);
  const Node* variance = variance_input != nullptr ? pattern.giver(*variance_input, "mean") : nullptr;
  if (variance == nullptr || !is_mean_of_last(*variance, rank)) return std::nullopt;
  const Node* power = pattern.giver(variance->inputs[0], "pow");
  const Node* product = pattern.giver(variance->inputs[0], "mul");
  const NodeInput centred_value = NodeInput::of(centred->name);
  const bool is_square =
      (power != nullptr && power->inputs[0] == centred_value && pattern.is_number(power->inputs[1], 2)) ||
      (product != nullptr && product->inputs[0] == centred_value && product->inputs[1] == centred_value);
  const size_t readers = power != nullptr ? 2 : 3;
  const bool fits =
      is_square && mean->inputs[0] == centred->inputs[0] && pattern.readers(*centred) == readers;
  if (!fits) return std::nullopt;
  const NodeInput& epsilon = variance_input == &shifted->inputs[0] ? shifted->inputs[1] : shifted->inputs[0];
  return Normalized{centred->inputs[0], *pattern.number(epsilon)};
}

/// Fuses the pattern that ends in the node `sum`.
void fuse_layer_norm(const Pattern& pattern, const ValueTypes& types, Node& sum) {
  const auto is_vector = [&](const NodeInput& input) { return pattern.tensor(input) != nullptr; };
  const NodeInput* scaled_value = beside(sum, is_vector);
  const Node* scaled = scaled_value != nullptr ? pattern.giver(*scaled_value, "mul") : nullptr;
  const NodeInput* quotient_value = scaled != nullptr ? beside(*scaled, is_vector) : nullptr;
  const Node* quotient = quotient_value != nullptr ? pattern.giver(*quotient_value, "div") : nullptr;
  if (quotient == nullptr) return;
  const Shape& shape = types.at(quotient->name).shape;
  const std::optional<Normalized> found = normalized(pattern, *quotient, shape.size());
  const Parameter* weight =
      pattern.tensor(quotient_value == &scaled->inputs[0] ? scaled->inputs[1] : scaled->inputs[0]);
  const Parameter* bias = pattern.tensor(scaled_value == &sum.inputs[0] ? sum.inputs[1] : sum.inputs[0]);
  if (!found || weight->tensor.shape() != Shape{shape.back()} ||
      bias->tensor.shape() != weight->tensor.shape())
    return;
  const NodeInput& weight_input =
      quotient_value == &scaled->inputs[0] ? scaled->inputs[1] : scaled->inputs[0];
  const NodeInput& bias_input = scaled_value == &sum.inputs[0] ? sum.inputs[1] : sum.inputs[0];
  const auto parameter_of = [&](const NodeInput& input) {
    return pattern.shared_giver(input, "get_attr")->parameters.front().second;
  };
  constexpr std::string_view kWeight = ".weight";
  const std::string& target = pattern.shared_giver(weight_input, "get_attr")->target;
  sum.target = target.ends_with(kWeight) ? target.substr(0, target.size() - kWeight.size()) : sum.name;
  sum.parameters = {{"weight", parameter_of(weight_input)}, {"bias", parameter_of(bias_input)}};
  sum.op = "layer_norm";
  sum.inputs = {found->input};
  sum.attributes = {{"normalized_shape", Value(std::vector<int64_t>{shape.back()})}, {"eps", found->epsilon}};
  sum.mase_type = find_operator(sum.op).mase_type;
}

}  // namespace

void recognize_layer_norm(Graph& graph) {
  const Pattern pattern(graph);
  const ValueTypes types = infer_shapes(graph);
  for (Node& node : graph.nodes()) {
    const auto* pair = trait<PairOperation>(node);
    if (pair != nullptr && *pair == PairOperation::kAdd) fuse_layer_norm(pattern, types, node);
  }
}

}  // namespace detent

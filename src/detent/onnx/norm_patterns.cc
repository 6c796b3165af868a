#include "detent/onnx/import_steps.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <unordered_map>

#include "detent/core/error.h"
#include "detent/graph/operators.h"
#include "detent/graph/value_sizes.h"

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

/// The only dimension of mean(x), which stays with size 1.
std::optional<int64_t> dimension_of_mean(const Node& mean, size_t rank) {
  if (mean.inputs.size() != 2 || !boolean_attribute(mean, "keepdim")) return std::nullopt;
  const auto* const dims = mean.inputs[1].constant.get_if<List>();
  const auto* const dim = dims != nullptr && dims->size() == 1 ? dims->front().get_if<int64_t>() : nullptr;
  if (dim == nullptr) return std::nullopt;
  return *dim < 0 ? *dim + static_cast<int64_t>(rank) : *dim;
}

bool is_mean_of_last(const Node& mean, size_t rank) {
  return dimension_of_mean(mean, rank) == static_cast<int64_t>(rank) - 1;
}

struct Normalized {
  NodeInput input;
  double epsilon = 0;
  int64_t dim = 0;
};

/// (x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps), with means over one dimension
std::optional<Normalized> normalized(const Pattern& pattern, const Node& quotient, size_t rank) {
  const Node* centred = pattern.shared_giver(quotient.inputs[0], "sub");
  const Node* deviation = pattern.giver(quotient.inputs[1], "sqrt");
  if (centred == nullptr || deviation == nullptr) return std::nullopt;
  const Node* mean = pattern.giver(centred->inputs[1], "mean");
  const Node* shifted = pattern.giver(deviation->inputs[0], "add");
  if (mean == nullptr || shifted == nullptr) return std::nullopt;
  const auto dim = dimension_of_mean(*mean, rank);
  const auto is_number = [&](const NodeInput& input) { return pattern.number(input).has_value(); };
  const NodeInput* variance_input = beside(*shifted, is_number);
  const Node* variance = variance_input != nullptr ? pattern.giver(*variance_input, "mean") : nullptr;
  if (!dim || variance == nullptr || dimension_of_mean(*variance, rank) != dim) return std::nullopt;
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
  return Normalized{centred->inputs[0], *pattern.number(epsilon), *dim};
}

/// Without parameters yet.
void become(Node& node, const std::string& op, const NodeInput& input, Table attributes) {
  node.target = node.name;
  node.parameters.clear();
  node.op = op;
  node.inputs = {input};
  node.attributes = std::move(attributes);
  node.mase_type = find_operator(op).mase_type;
}

void become_norm(Node& node, const std::string& op, const Normalized& norm, int64_t size) {
  become(node, op, norm.input,
         {{"normalized_shape", Value(std::vector<int64_t>{size})}, {"eps", norm.epsilon}});
}

/// The layer whose weight the constant was, or else the node.
void take_name_of(const Pattern& pattern, const NodeInput& weight, Node& node) {
  constexpr std::string_view kWeight = ".weight";
  const std::string& target = pattern.shared_giver(weight, "get_attr")->target;
  if (target.ends_with(kWeight)) node.target = target.substr(0, target.size() - kWeight.size());
}

const ParameterRef& shared_tensor(const Pattern& pattern, const NodeInput& input) {
  return pattern.shared_giver(input, "get_attr")->parameters.front().second;
}

/// x of x^2, by pow or by mul.
std::optional<NodeInput> squared(const Pattern& pattern, const NodeInput& square) {
  const Node* power = pattern.giver(square, "pow");
  if (power != nullptr && pattern.is_number(power->inputs[1], 2)) return power->inputs[0];
  const Node* product = pattern.giver(square, "mul");
  const bool is_square = product != nullptr && product->inputs[0] == product->inputs[1];
  return is_square ? std::optional(product->inputs[0]) : std::nullopt;
}

/// x of sqrt(mean(x^2) + eps), or of its square.
std::optional<Normalized> mean_square(const Pattern& pattern, const NodeInput& shifted_value, size_t rank) {
  const Node* shifted = pattern.giver(shifted_value, "add");
  if (shifted == nullptr) return std::nullopt;
  const auto is_number = [&](const NodeInput& input) { return pattern.number(input).has_value(); };
  const NodeInput* mean_value = beside(*shifted, is_number);
  const Node* mean = mean_value != nullptr ? pattern.giver(*mean_value, "mean") : nullptr;
  if (mean == nullptr || !is_mean_of_last(*mean, rank)) return std::nullopt;
  const auto x = squared(pattern, mean->inputs[0]);
  const NodeInput& epsilon = mean_value == &shifted->inputs[0] ? shifted->inputs[1] : shifted->inputs[0];
  return x ? std::optional(Normalized{*x, *pattern.number(epsilon), static_cast<int64_t>(rank) - 1})
           : std::nullopt;
}

/// 1 / sqrt(mean(x^2) + eps) in its spellings, or with `is_divisor` sqrt(...) alone.
std::optional<Normalized> over_mean_square(const Pattern& pattern, const NodeInput& factor, bool is_divisor,
                                           size_t rank) {
  const Node* root = pattern.giver(factor, "sqrt");
  if (!is_divisor) {
    const Node* power = pattern.giver(factor, "pow");
    if (power != nullptr && pattern.is_number(power->inputs[1], -0.5))
      return mean_square(pattern, power->inputs[0], rank);
    const Node* inverse = pattern.giver(factor, "reciprocal");
    const Node* quotient = pattern.giver(factor, "div");
    if (quotient != nullptr && !pattern.is_number(quotient->inputs[0], 1)) return std::nullopt;
    if (inverse == nullptr && quotient == nullptr) return std::nullopt;
    root = pattern.giver(inverse != nullptr ? inverse->inputs[0] : quotient->inputs[1], "sqrt");
  }
  return root != nullptr ? mean_square(pattern, root->inputs[0], rank) : std::nullopt;
}

/// x / sqrt(mean(x^2) + eps), as a product or a quotient.
std::optional<Normalized> divided_by_root(const Pattern& pattern, const NodeInput& value, size_t rank) {
  if (const Node* quotient = pattern.giver(value, "div")) {
    const auto found = over_mean_square(pattern, quotient->inputs[1], true, rank);
    return found && found->input == quotient->inputs[0] ? found : std::nullopt;
  }
  const Node* product = pattern.giver(value, "mul");
  for (const size_t i : {0U, 1U}) {
    if (product == nullptr) break;
    const auto found = over_mean_square(pattern, product->inputs[i], false, rank);
    if (found && found->input == product->inputs[1 - i]) return found;
  }
  return std::nullopt;
}

/// Fuses the pattern of a root mean square norm that ends in the node `scaled`.
void fuse_rms_norm(const Pattern& pattern, const ValueTypes& types, Node& scaled) {
  const auto is_vector = [&](const NodeInput& input) { return pattern.tensor(input) != nullptr; };
  const NodeInput* value = beside(scaled, is_vector);
  if (value == nullptr || value->is_constant()) return;
  const Shape& shape = types.at(value->node).shape;
  const NodeInput weight = value == &scaled.inputs[0] ? scaled.inputs[1] : scaled.inputs[0];
  if (shape.empty() || pattern.tensor(weight)->tensor.shape() != Shape{shape.back()}) return;
  const auto found = divided_by_root(pattern, *value, shape.size());
  if (!found) return;
  const Node* centred = pattern.shared_giver(found->input, "sub");  // part of a layer norm
  if (centred != nullptr && pattern.shared_giver(centred->inputs[1], "mean") != nullptr) return;
  become_norm(scaled, "rms_norm", *found, shape.back());
  take_name_of(pattern, weight, scaled);
  scaled.parameters.emplace_back("weight", shared_tensor(pattern, weight));
}

/// A constant of one number for each channel of values of this shape.
std::optional<Tensor> of_channels(const Pattern& pattern, const NodeInput& input, const Shape& shape) {
  const Parameter* const parameter = pattern.tensor(input);
  if (parameter == nullptr || !pattern.shared_giver(input, "get_attr")->quantization.empty())
    return std::nullopt;
  Shape wanted(shape.size() - 1, 1);
  wanted[0] = shape[1];
  const Shape& own = parameter->tensor.shape();
  if (own != wanted && !(own.size() == shape.size() && own[0] == 1 &&
                         std::equal(wanted.begin(), wanted.end(), own.begin() + 1)))
    return std::nullopt;
  return parameter->tensor.reshaped({shape[1]});
}

/// value * weight + bias
struct ScaledAndShifted {
  const Node* product;
  const NodeInput* value;
  const NodeInput* weight;
  const NodeInput* bias;
};

std::optional<ScaledAndShifted> scaled_and_shifted(const Pattern& pattern, const Node& sum) {
  const auto is_vector = [&](const NodeInput& input) { return pattern.tensor(input) != nullptr; };
  const NodeInput* const product_value = beside(sum, is_vector);
  const Node* const product = product_value != nullptr ? pattern.giver(*product_value, "mul") : nullptr;
  const NodeInput* const value = product != nullptr ? beside(*product, is_vector) : nullptr;
  if (value == nullptr) return std::nullopt;
  return ScaledAndShifted{product, value, &product->inputs[value == &product->inputs[0] ? 1 : 0],
                          &sum.inputs[product_value == &sum.inputs[0] ? 1 : 0]};
}

Table moved(size_t rank, size_t from, size_t to) {
  std::vector<int64_t> dims(rank);
  std::iota(dims.begin(), dims.end(), 0);
  const int64_t dim = dims[from];
  dims.erase(dims.begin() + static_cast<int64_t>(from));
  dims.insert(dims.begin() + static_cast<int64_t>(to), dim);
  return {{"dims", Value(dims)}};
}

/// Over the channels, which become the last dimension for it: three nodes of the pattern become the norm and
/// what moves them there and back.
void fuse_channel_norm(const Pattern& pattern, const ScaledAndShifted& scaled, const Normalized& norm,
                       const Shape& shape, Graph& graph, Node& sum) {
  const auto weight = of_channels(pattern, *scaled.weight, shape);
  const auto bias = of_channels(pattern, *scaled.bias, shape);
  if (!weight || !bias) return;
  const size_t last = shape.size() - 1;
  Node& norm_node = graph.node(scaled.product->name);
  Node& quotient = graph.node(scaled.value->node);
  const NodeInput weight_input = *scaled.weight;
  become(quotient, "permute", norm.input, moved(shape.size(), 1, last));
  become_norm(norm_node, "layer_norm", {NodeInput::of(quotient.name), norm.epsilon}, shape[1]);
  take_name_of(pattern, weight_input, norm_node);
  norm_node.parameters.emplace_back("weight", ParameterRef(Parameter{*weight, true}));
  norm_node.parameters.emplace_back("bias", ParameterRef(Parameter{*bias, true}));
  become(sum, "permute", NodeInput::of(norm_node.name), moved(shape.size(), last, 1));
}

/// Fuses the pattern that ends in the node `sum`.
void fuse_layer_norm(const Pattern& pattern, const ValueTypes& types, Graph& graph, Node& sum) {
  const auto scaled = scaled_and_shifted(pattern, sum);
  const Node* const quotient = scaled ? pattern.giver(*scaled->value, "div") : nullptr;
  if (quotient == nullptr) return;
  const Shape& shape = types.at(quotient->name).shape;
  const std::optional<Normalized> found = normalized(pattern, *quotient, shape.size());
  if (!found) return;
  const bool is_of_last = found->dim == std::ssize(shape) - 1;
  if (!is_of_last && found->dim == 1) return fuse_channel_norm(pattern, *scaled, *found, shape, graph, sum);
  const Shape of_last = {shape.back()};
  if (!is_of_last || pattern.tensor(*scaled->weight)->tensor.shape() != of_last ||
      pattern.tensor(*scaled->bias)->tensor.shape() != of_last)
    return;
  const NodeInput weight = *scaled->weight;
  const NodeInput bias = *scaled->bias;
  become_norm(sum, "layer_norm", *found, shape.back());
  take_name_of(pattern, weight, sum);
  sum.parameters.emplace_back("weight", shared_tensor(pattern, weight));
  sum.parameters.emplace_back("bias", shared_tensor(pattern, bias));
}

/// Without parameters, over the last dimension, whose size is known.
void fuse_plain_norm(const Pattern& pattern, const ValueTypes& types, const ValueTypes& at_other_sizes,
                     Node& quotient) {
  const Shape& shape = types.at(quotient.name).shape;
  const std::optional<Normalized> found = normalized(pattern, quotient, shape.size());
  const bool fits = found && found->dim == std::ssize(shape) - 1 && shape.back() > 0 &&
                    shape.back() == at_other_sizes.at(quotient.name).shape.back();
  if (fits) become_norm(quotient, "layer_norm", *found, shape.back());
}

const Node* reshaping(const Pattern& pattern, const NodeInput& input) {
  const Node* const view = pattern.giver(input, "view");
  return view != nullptr ? view : pattern.giver(input, "dynamic_reshape");
}

bool is_constant_of(const Node& node, const char* name, float wanted) {
  const Parameter* const parameter = node.find_parameter(name);
  return parameter != nullptr && std::ranges::all_of(std::as_const(parameter->tensor).values<float>(),
                                                     [&](float x) { return x == wanted; });
}

/// The norm of groups of channels whose result `value` is: of groups as channels of a signal.
struct GroupNormalized {
  NodeInput input;
  int64_t groups;
  double epsilon;
};

std::optional<GroupNormalized> group_normalized(const Pattern& pattern, const ValueTypes& types,
                                                const NodeInput& value) {
  const Node* const back = reshaping(pattern, value);
  const Node* const signal = back != nullptr ? pattern.giver(back->inputs[0], "squeeze") : nullptr;
  const Node* const norm = signal != nullptr ? pattern.giver(signal->inputs[0], "instance_norm2d") : nullptr;
  const Node* const image = norm != nullptr ? pattern.giver(norm->inputs[0], "unsqueeze") : nullptr;
  const Node* const apart = image != nullptr ? reshaping(pattern, image->inputs[0]) : nullptr;
  if (apart == nullptr || !is_constant_of(*norm, "weight", 1) || !is_constant_of(*norm, "bias", 0))
    return std::nullopt;
  const NodeInput& x = apart->inputs[0];
  const Shape& shape = types.at(value_name(x)).shape;
  const Shape& groups = types.at(apart->name).shape;
  const Node* const sizes =
      back->inputs.size() == 2 ? pattern.shared_giver(back->inputs[1], "shape_of") : nullptr;
  const bool has_sizes_of_x = sizes != nullptr && value_name(sizes->inputs[0]) == value_name(x);
  const bool keeps_shape = shape.size() >= 3 && shape == types.at(back->name).shape && shape[1] > 0 &&
                           (has_sizes_of_x || std::ranges::count(shape, kOpenSize) <= 1);
  if (!keeps_shape || groups.size() != 3 || groups[0] != shape[0] || groups[1] < 1 ||
      shape[1] % groups[1] != 0 || types.at(image->name).shape != Shape{groups[0], groups[1], groups[2], 1})
    return std::nullopt;
  return GroupNormalized{apart->inputs[0], groups[1], number_attribute(*norm, "eps")};
}

/// As PyTorch's exporters write a norm of groups: Reshape, InstanceNormalization, Reshape, Mul, Add.
void fuse_group_norm(const Pattern& pattern, const ValueTypes& types, Node& sum) {
  const auto scaled = scaled_and_shifted(pattern, sum);
  const auto found = scaled ? group_normalized(pattern, types, *scaled->value) : std::nullopt;
  if (!found) return;
  const Shape& shape = types.at(value_name(*scaled->value)).shape;
  const auto weight = of_channels(pattern, *scaled->weight, shape);
  const auto bias = of_channels(pattern, *scaled->bias, shape);
  if (!weight || !bias) return;
  become(sum, "group_norm", found->input, {{"num_groups", found->groups}, {"eps", found->epsilon}});
  sum.parameters.emplace_back("weight", ParameterRef(Parameter{*weight, true}));
  sum.parameters.emplace_back("bias", ParameterRef(Parameter{*bias, true}));
}

/// With two samples, if the network takes them.
ValueTypes types_at_other_sizes(const Graph& graph) {
  const NamedSizes sizes = other_sizes(graph);
  try {
    return infer_shapes(graph, with_batch(graph, sizes, 2));
  } catch (const Error&) {
    return infer_shapes(graph, sizes);
  }
}

}  // namespace

void recognize_norms(Graph& graph) {
  const Pattern pattern(graph);
  const ValueTypes types = infer_shapes(graph);
  for (Node& node : graph.nodes()) {
    const auto* pair = trait<PairOperation>(node);
    if (pair != nullptr && *pair == PairOperation::kAdd) {
      fuse_layer_norm(pattern, types, graph, node);
      if (trait<PairOperation>(node) != nullptr) fuse_group_norm(pattern, types, node);
    }
    if (pair != nullptr && *pair == PairOperation::kMul) fuse_rms_norm(pattern, types, node);
  }
  std::optional<ValueTypes> at_other_sizes;
  for (Node& node : graph.nodes()) {  // what no weight follows
    if (node.op != "div" || !normalized(pattern, node, types.at(node.name).shape.size())) continue;
    if (!at_other_sizes) at_other_sizes = types_at_other_sizes(graph);
    fuse_plain_norm(pattern, types, *at_other_sizes, node);
  }
}

}  // namespace detent

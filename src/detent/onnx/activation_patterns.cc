#include "detent/onnx/import_steps.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <unordered_map>
#include <vector>

#include "detent/graph/operators.h"

namespace detent {
namespace {

/// Files hold the constants in 32 or 16 bits.
bool is_near(double value, double expected) { return std::fabs(value - expected) <= 1e-3 * expected; }

std::optional<double> number_of(const NodeInput& input) {
  double scratch = 0;
  const double* number = input.is_constant() ? input.constant.number(scratch) : nullptr;
  return number == nullptr ? std::nullopt : std::optional(*number);
}

class ActivationPatterns {
 public:
  explicit ActivationPatterns(Graph& graph) : graph_(graph) {
    for (const Node& node : graph.nodes()) {
      for (const NodeInput& input : node.inputs) readers_[value_name(input)].push_back(node.name);
    }
  }

  /// The nodes after one that computes erf or tanh.
  void recognize_gelu(const std::string& function) {
    const Node* gate = only_reader(function);
    if (gate == nullptr || gate->op != "add" || !is_sum_with_one(*gate)) return;
    for (const Node* root = only_reader(gate->name); root != nullptr && root->op == "mul";
         root = only_reader(root->name)) {
      Product product = product_of(NodeInput::of(root->name), true);
      const auto is_gate = [&](const NodeInput& factor) { return factor.node == gate->name; };
      if (product.factors.size() != 2 || std::ranges::count_if(product.factors, is_gate) != 1) continue;
      const NodeInput x = product.factors[is_gate(product.factors[0]) ? 1 : 0];
      const Node& inner = graph_.node(function);
      const bool exact = inner.op == "erf";
      if (!is_near(product.number, 0.5) || !(exact ? is_scaled(inner, x) : is_bent(inner, x))) continue;
      become(root->name, "gelu", x, {{"approximate", exact ? "none" : "tanh"}});
      return;
    }
  }

  /// A product of x and a gate of x.
  void recognize_gated(const std::string& gate, const char* activation) {
    const Node* product = only_reader(gate);
    if (product == nullptr || product->op != "mul") return;
    const NodeInput x = graph_.node(gate).inputs[0];
    const bool gates_x = (product->inputs[0] == x && product->inputs[1] == NodeInput::of(gate)) ||
                         (product->inputs[1] == x && product->inputs[0] == NodeInput::of(gate));
    if (gates_x && !x.is_constant()) become(product->name, activation, x, {});
  }

 private:
  void become(const std::string& name, const char* op, const NodeInput& x, Table attributes) {
    Node& node = graph_.node(name);
    node.op = op;
    node.mase_type = find_operator(op).mase_type;
    node.inputs = {x};
    node.attributes = std::move(attributes);
  }

  struct Product {
    double number = 1;
    std::vector<NodeInput> factors;
  };

  const Node* only_reader(const std::string& value) const {
    const auto found = readers_.find(value);
    return found == readers_.end() || found->second.size() != 1 ? nullptr : &graph_.node(found->second[0]);
  }

  static bool is_sum_with_one(const Node& node) {
    return number_of(node.inputs[0]) == 1 || number_of(node.inputs[1]) == 1;
  }

  /// Factors of a product; a value that something else reads too is taken apart only if it is the first.
  Product product_of(const NodeInput& value, bool is_first = false) const {
    if (const auto number = number_of(value)) return {*number, {}};
    const Node& node = graph_.node(value.node);
    if (!is_first && only_reader(node.name) == nullptr) return {1, {value}};
    if (node.op == "mul") {
      Product product = product_of(node.inputs[0]);
      const Product other = product_of(node.inputs[1]);
      product.number *= other.number;
      product.factors.insert(product.factors.end(), other.factors.begin(), other.factors.end());
      return product;
    }
    if (node.op == "div" && number_of(node.inputs[1])) {
      Product product = product_of(node.inputs[0]);
      product.number /= *number_of(node.inputs[1]);
      return product;
    }
    const auto exponent = node.op == "pow" ? number_of(node.inputs[1]) : std::nullopt;
    if (exponent == 2.0 || exponent == 3.0)
      return {1, std::vector<NodeInput>(static_cast<size_t>(*exponent), node.inputs[0])};
    return {1, {value}};
  }

  bool is_product(const Product& product, double number, const NodeInput& x, size_t power) const {
    return product.factors.size() == power && is_near(product.number, number) &&
           std::ranges::all_of(product.factors, [&](const NodeInput& factor) { return factor == x; });
  }

  /// x / sqrt 2
  bool is_scaled(const Node& function, const NodeInput& x) const {
    return is_product(product_of(function.inputs[0]), 1 / std::numbers::sqrt2, x, 1);
  }

  /// sqrt(2 / pi) (x + 0.044715 x^3)
  bool is_bent(const Node& function, const NodeInput& x) const {
    constexpr double kCubic = 0.044715;
    const Product product = product_of(function.inputs[0]);
    if (product.factors.size() != 1 || !is_near(product.number, std::sqrt(2 / std::numbers::pi)))
      return false;
    const Node& sum = graph_.node(product.factors[0].node);
    if (sum.op != "add") return false;
    for (const size_t cube : {size_t{0}, size_t{1}}) {
      if (sum.inputs[1 - cube] == x && is_product(product_of(sum.inputs[cube], true), kCubic, x, 3))
        return true;
    }
    return false;
  }

  Graph& graph_;
  std::unordered_map<std::string, std::vector<std::string>> readers_;
};

}  // namespace

void recognize_activations(Graph& graph) {
  ActivationPatterns patterns(graph);
  for (const Node& node : graph.nodes()) {
    if (node.op == "erf" || node.op == "tanh") patterns.recognize_gelu(node.name);
    if (node.op == "sigmoid") patterns.recognize_gated(node.name, "silu");
    if (node.op == "hardsigmoid" && is_near(number_attribute(node, "alpha"), 1.0 / 6) &&
        number_attribute(node, "beta") == 0.5)
      patterns.recognize_gated(node.name, "hardswish");
  }
}

}  // namespace detent

#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/core/value.h"
#include "detent/formats/quant_spec.h"
#include "detent/graph/metadata.h"

namespace detent {

/// What kind of node this is, in the words of the MASE metadata files.
enum class MaseType {
  kPlaceholder,
  kGetAttr,
  kBuiltinFunc,
  kModuleRelatedFunc,
  kModule,
  kImplicitFunc,
  kOutput,
};
constexpr std::array<const char*, 7> enum_names(MaseType) {
  return {"placeholder", "get_attr",      "builtin_func", "module_related_func",
          "module",      "implicit_func", "output"};
}
std::string_view mase_type_name(MaseType type);

/// How integer execution brings 32-bit sums to the scale of the result: by a float32 multiplier, as ONNX
/// Runtime and oneDNN, or by an integer one and a shift, as TensorFlow Lite (integer/requantize.h).
enum class Requantization { kFloat, kFixedPoint };
constexpr std::array<const char*, 2> enum_names(Requantization) { return {"float", "fixed_point"}; }

/// One positional input of a node: the result of another node, or a constant (a number or a list of numbers).
struct NodeInput {
  std::string node;  // "" for a constant
  Value constant;

  static NodeInput of(std::string node_name) { return {std::move(node_name), Value()}; }
  static NodeInput of_constant(Value value) { return {"", std::move(value)}; }
  bool is_constant() const { return node.empty(); }
  bool operator==(const NodeInput&) const = default;
};

/// A named tensor that a node owns. Trainable ones are what an optimizer updates; the others (running
/// statistics) are state.
struct Parameter {
  Tensor tensor;
  bool trainable = true;
};

/// One operation. Its single result bears its name.
struct Node {
  std::string name;    // unique; as PyTorch's FX tracer would call it: "seq_blocks_0", "view", "relu_1"
  std::string target;  // module path that prefixes its parameters in a state_dict ("seq_blocks.0"), or ""
  std::string op;      // an operator of graph/operators.h
  MaseType mase_type = MaseType::kBuiltinFunc;
  std::vector<NodeInput> inputs;
  Table attributes;  // complete: every attribute that the operator declares
  std::vector<std::pair<std::string, Parameter>>
      parameters;  // in the operator's order; absent ones are left out
  Metadata metadata;
  std::map<std::string, QuantSpec, std::less<>> quantization;  // operand ("data_in_0", "weight", ...) -> spec

  const Parameter* find_parameter(std::string_view parameter) const;
  Parameter* find_parameter(std::string_view parameter);
  /// "seq_blocks.0.weight"; of a get_attr node's value the target itself.
  std::string parameter_key(std::string_view parameter) const;
  /// nullptr when the operand is not quantized.
  const QuantSpec* find_quantization(std::string_view operand) const;
  /// "weight_scale" for "weight": the parameter that holds the learned scale of an operand.
  static std::string scale_name(std::string_view operand) { return std::string(operand) + "_scale"; }
  /// Names of those parameters, as the quantization asks for them.
  std::vector<std::string> scale_names() const;
};

/// A network: nodes in execution order. Every input names an earlier node; the last node is the only output.
/// Copies share parameter storage; `deep_copy` does not.
class Graph {
 public:
  Graph() = default;
  explicit Graph(std::string name) : name_(std::move(name)) {}

  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }
  std::vector<Node>& nodes() { return nodes_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  /// Throws Error naming the nearest node when absent.
  const Node& node(std::string_view name) const;
  Node& node(std::string_view name);
  const Node* find(std::string_view name) const;
  std::vector<std::string> node_names() const;

  /// Given: nodes whose operands are affine with given scales compute on integer codes, in simulation as in
  /// integer execution (integer/node_form.h). None: quantized operands are rounded, and nodes compute in
  /// float.
  const std::optional<Requantization>& requantization() const { return requantization_; }
  void set_requantization(std::optional<Requantization> way) { requantization_ = way; }

  /// Names of the placeholders, in order.
  std::vector<std::string> input_names() const;
  /// Shape of each placeholder, batch size 1.
  const std::map<std::string, Shape, std::less<>>& input_shapes() const { return input_shapes_; }

  /// Appends a placeholder for a tensor of `shape` (batch dimension first, of size 1).
  void add_input(std::string name, Shape shape);
  /// Appends a node; its name must be new and its inputs must exist. Missing attributes take the operator's
  /// defaults. Throws Error otherwise.
  Node& add(Node node);
  /// Removes a node that nothing reads. Throws Error naming a reader.
  void erase(std::string_view name);

  Graph deep_copy() const;

  int64_t parameter_count() const;

 private:
  std::string name_;
  std::vector<Node> nodes_;
  std::map<std::string, Shape, std::less<>> input_shapes_;
  std::optional<Requantization> requantization_;
};

/// Throws Error naming the first node that breaks a rule: names are unique and valid; operators are known,
/// and placeholders, get_attr and outputs have the MASE type of that name; inputs exist, come earlier and
/// have the right number; constants are numbers; attributes and parameters are those the operator declares,
/// once each, with shapes that fit; parameters are float32; the input shapes are those of the placeholders;
/// exactly one output, a tensor, at the end; quantized operands are tensors, and their learned scales are
/// there. Executors rely on it.
void verify(const Graph& graph);

}  // namespace detent

#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/core/value.h"
#include "detent/formats/quant_spec.h"
#include "detent/graph/node_statistics.h"
#include "detent/graph/parameter.h"
#include "detent/graph/quantizer.h"
#include "detent/graph/tensor_type.h"

namespace detent {

/// The node's kind in MASE's metadata files.
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

/// Requantization of 32-bit sums: by a float32 multiplier, as ONNX Runtime and oneDNN, or by an integer and a
/// shift, as TensorFlow Lite (inference/requantize.h).
enum class Requantization { kFloat, kFixedPoint };
constexpr std::array<const char*, 2> enum_names(Requantization) { return {"float", "fixed_point"}; }

/// An operand: a result of another node, a constant number or list of numbers, or, if the operator allows it,
/// nothing.
struct NodeInput {
  std::string node;   // "" for a constant and for an absent operand
  Value constant;     // NA for an absent operand
  size_t result = 0;  // which of the node's results

  static NodeInput of(std::string node_name, size_t result = 0) {
    return {std::move(node_name), Value(), result};
  }
  static NodeInput of_constant(Value value) { return {"", std::move(value)}; }
  static NodeInput absent() { return {}; }
  /// Not a result of another node.
  bool is_constant() const { return node.empty(); }
  bool is_absent() const { return node.empty() && constant.is_na(); }
  bool operator==(const NodeInput&) const = default;
};

/// Name of a value of a graph: "conv" is the first result of the node conv, "split:1" the second of split.
std::string value_name(std::string_view node, size_t result = 0);
inline std::string value_name(const NodeInput& input) { return value_name(input.node, input.result); }

class Graph;

/// One operation. Its results are data_out_0, data_out_1, ... among its operands.
struct Node {
  std::string name = {};  // unique; as PyTorch's FX tracer would call it: "seq_blocks_0", "view", "relu_1"
  std::string target =
      {};               // module path that prefixes its parameters in a state_dict ("seq_blocks.0"), or ""
  std::string op = {};  // an operator of graph/operators.h
  MaseType mase_type = MaseType::kBuiltinFunc;
  std::vector<NodeInput> inputs = {};
  Table attributes = {};  // complete: every attribute that the operator declares
  std::vector<std::pair<std::string, ParameterRef>> parameters =
      {};  // in the operator's order; absent ones are left out
  NodeStatistics statistics = {};
  /// Names of its results in the file that the network was imported from, and of the output node those of the
  /// network's outputs; "" or missing where they had no name.
  std::vector<std::string> source_names = {};
  std::map<std::string, QuantizerRef, std::less<>> quantization =
      {};  // by operand: "data_in_0", "weight", ...
  /// The iterations of a loop (graph/loop.h), shared by copies of the node; nullptr of other operators.
  std::shared_ptr<const Graph> body = {};

  const Parameter* find_parameter(std::string_view parameter) const;
  Parameter* find_parameter(std::string_view parameter);
  /// The same, mutable: untied from other nodes first.
  Parameter* own_parameter(std::string_view parameter);
  /// "seq_blocks.0.weight", "seq_blocks.0.weight_scale"; of a get_attr node's value the target itself.
  std::string parameter_key(std::string_view parameter) const;
  /// nullptr when the operand is not quantized.
  const Quantizer* find_quantizer(std::string_view operand) const;
  /// The operand's spec without owned parameters; nullptr if not quantized.
  const QuantSpec* find_quantization(std::string_view operand) const;
  /// The operand's complete spec (`Quantizer::effective_spec`); nullopt also if not quantized. Throws Error
  /// naming node and operand.
  std::optional<QuantSpec> rounding(std::string_view operand) const;
  /// Its parameters, then those of its quantizers, as "weight_scale".
  std::vector<std::pair<std::string, ParameterRef>> all_parameters() const;
};

/// A network: nodes in execution order. Every operand is a result of an earlier node; what the last node, the
/// output, reads are the outputs. Copies have quantizers of their own, and parameters of their own whose
/// tensors share storage; what is shared within the graph is shared within the copy. Bodies of loops, which
/// nothing changes, stay shared. `deep_copy` shares nothing with the original. Look-up by name takes constant
/// time.
class Graph {
 public:
  Graph();
  explicit Graph(std::string name);
  Graph(const Graph& other);
  Graph(Graph&&) noexcept;
  Graph& operator=(const Graph& other);
  Graph& operator=(Graph&&) noexcept;
  ~Graph();

  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }
  /// In execution order. Nodes are mutable, names by `rename` only.
  std::span<Node> nodes() { return nodes_; }
  std::span<const Node> nodes() const { return nodes_; }
  /// Throws Error naming the nearest node when absent.
  const Node& node(std::string_view name) const;
  Node& node(std::string_view name);
  const Node* find(std::string_view name) const;
  /// Index in `nodes()`. Throws Error as `node` does.
  size_t position(std::string_view name) const;
  std::vector<std::string> node_names() const;

  /// If set, nodes whose operands are affine with given scales compute on integer codes, in simulation and
  /// integer execution alike (inference/node_form.h). Otherwise quantized operands are rounded, and nodes
  /// compute in float.
  const std::optional<Requantization>& requantization() const { return requantization_; }
  void set_requantization(std::optional<Requantization> way) { requantization_ = way; }

  /// Names of the placeholders, in order.
  std::vector<std::string> input_names() const;
  /// Type of each placeholder.
  const std::map<std::string, TensorType, std::less<>>& input_types() const { return input_types_; }
  /// Shape of each placeholder for these named sizes; others take their usual ones.
  std::map<std::string, Shape, std::less<>> input_shapes(const NamedSizes& sizes = {}) const;

  /// Appends a placeholder.
  void add_input(std::string name, TensorType type);
  /// The same for float32 of `shape`, whose first dimension, of size 1, is the batch.
  void add_input(std::string name, const Shape& shape);
  /// Appends a node; its name must be new and its inputs must exist. Missing attributes take the operator's
  /// defaults. Throws Error otherwise.
  Node& add(Node node);
  /// Removes a node that nothing reads. Throws Error naming a reader.
  void erase(std::string_view name);
  /// Removes all nodes that satisfy `is_removed`; none of the others may read them. Returns how many.
  size_t erase_if(const std::function<bool(const Node&)>& is_removed);
  /// Renames a node and its references. Throws Error if the name is taken.
  void rename(std::string_view name, std::string new_name);

  Graph deep_copy() const;

  /// Number of trainable parameters; tied ones count once.
  int64_t parameter_count() const;

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  void part_from_original();
  void index_nodes();

  std::string name_;
  std::vector<Node> nodes_;
  std::unordered_map<std::string, size_t, Hash, std::equal_to<>> positions_;
  std::map<std::string, TensorType, std::less<>> input_types_;
  std::optional<Requantization> requantization_;
};

/// The network with other input types; unlisted ones stay.
Graph with_input_types(const Graph& graph, const std::map<std::string, TensorType>& types);

/// Throws Error naming the first node that breaks a rule: names are unique and valid; operators are known,
/// and placeholders, get_attr and outputs have the MASE type of that name; inputs exist, come earlier and
/// have the right number and dtypes, and only those are absent that may be; constants are numbers or lists of
/// them; attributes and parameters are those the operator declares, once each, with shapes and dtypes that
/// fit; loops, and no other operators, have a body, which follows these rules too; the input types are those
/// of the placeholders; exactly one output node, of tensors, at the end; quantized operands are float32
/// tensors, and what their quantizers own is there. Executors rely on it.
void verify(const Graph& graph);

}  // namespace detent

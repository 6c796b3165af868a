#include "detent/passes/post_training/rotation.h"

#include <algorithm>
#include <map>

#include "detent/core/error.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"

namespace detent {
namespace {

/// Whether blocks of `block` elements that follow each other stay together, at multiples of `block`.
bool keeps_blocks(const StridedView& view, int64_t block) {
  if (view.shape.empty() || view.strides.back() != 1 || view.shape.back() % block != 0) return false;
  const auto is_whole = [&](int64_t elements) { return elements % block == 0; };
  return is_whole(view.offset) && std::all_of(view.strides.begin(), view.strides.end() - 1, is_whole);
}

class RotationSearch {
 public:
  RotationSearch(const Graph& graph, int64_t block)
      : graph_(graph), block_(block), types_(infer_shapes(graph)) {
    for (const Node& node : graph.nodes()) {
      for (const NodeInput& input : node.inputs)
        if (!input.is_constant()) ++readers_[value_name(input)];
    }
  }

  Rotations rotations() const {
    Rotations result;
    std::map<std::string, size_t> places;
    for (const Node& node : graph_.nodes()) {
      if (!is_weighted_sum(node)) continue;
      if (const std::string why = obstacle(node); !why.empty()) {
        result.obstacles.push_back(fmt::format("{}: {}", node.name, why));
        continue;
      }
      const NodeInput& value = node.inputs[0];
      const auto [place, is_new] = places.emplace(value_name(value), result.found.size());
      if (is_new) {
        const Shape& shape = shape_of(value);
        result.found.push_back({value, shape.size(), shape.back(), {}});
      }
      result.found[place->second].sinks.push_back(node.name);
    }
    for (Rotation& rotation : result.found) {
      if (readers_.at(value_name(rotation.value)) == rotation.sinks.size())
        rotation.source = source(rotation.value);
    }
    return result;
  }

 private:
  const Shape& shape_of(const NodeInput& value) const { return types_.at(value_name(value)).shape; }

  std::string obstacle(const Node& layer) const {
    const auto& sum = *trait<WeightedSum>(layer);
    const Tensor& weight = layer.find_parameter("weight")->tensor;
    if (sum.spatial_dims > 0) return "sums over windows: linear layers alone are rotated";
    if (!layer.quantization.empty()) return "is quantized already";
    if (layer.inputs[0].is_constant() || weight.dtype() != DType::kFloat32)
      return fmt::format("has a weight of {}, expected float32", dtype_name(weight.dtype()));
    if (weight.dim(1) % block_ != 0) {
      return fmt::format("sums over {} inputs, which blocks of {} do not divide (block_size)", weight.dim(1),
                         block_);
    }
    const std::string other = owner_beside(layer);
    return other.empty() ? "" : fmt::format("shares its weight with {}", other);
  }

  /// Another node with one of the layer's parameters; "": none.
  std::string owner_beside(const Node& layer) const {
    for (const Node& node : graph_.nodes()) {
      if (&node == &layer) continue;
      for (const auto& [name, parameter] : node.parameters) {
        for (const auto& [own, owned] : layer.parameters)
          if (parameter.is(owned)) return node.name;
      }
    }
    return "";
  }

  std::string source(NodeInput value) const {
    for (const Node* node = &graph_.node(value.node);; node = &graph_.node(value.node)) {
      const Shape& shape = shape_of(value);
      if (!node->quantization.empty() || value.result > 0 || shape.back() % block_ != 0) return "";
      if (is_weighted_sum(*node)) return gives_blocks(*node) ? node->name : "";
      const size_t from = trait<MatrixProduct>(*node) != nullptr ? 1 : 0;  // (a b) H = a (b H)
      if (from == 0 && !moves_blocks(*node, shape)) return "";
      value = node->inputs[from];
      if (value.is_constant() || readers_.at(value_name(value)) > 1 || shape_of(value).empty()) return "";
    }
  }

  bool gives_blocks(const Node& layer) const {
    const Parameter& weight = *layer.find_parameter("weight");
    return trait<WeightedSum>(layer)->spatial_dims == 0 && weight.tensor.dtype() == DType::kFloat32 &&
           weight.tensor.dim(0) % block_ == 0 && owner_beside(layer).empty();
  }

  bool moves_blocks(const Node& node, const Shape& result) const {
    const auto* movement = trait<Movement>(node);
    if (movement == nullptr || movement->joins || node.inputs[0].is_constant()) return false;
    const Shape& from = shape_of(node.inputs[0]);
    if (from.empty() || from.back() % block_ != 0) return false;
    if (movement->is_view()) return true;
    const auto is_open = [](const Shape& shape) {
      return std::ranges::find(shape, kOpenSize) != shape.end();
    };
    if (!movement->copies || is_open(from) || is_open(result)) return false;
    std::vector<Shape> inputs;
    for (const NodeInput& input : node.inputs)
      inputs.push_back(input.is_constant() ? Shape() : shape_of(input));
    return std::ranges::all_of(movement->copies(node, inputs, result), [&](const StridedCopy& copy) {
      return copy.input == 0 && keeps_blocks(copy.from, block_) && keeps_blocks(copy.to, block_);
    });
  }

  const Graph& graph_;
  int64_t block_;
  ValueTypes types_;
  std::map<std::string, size_t> readers_;
};

/// A graph in the making, in which values are rotated.
class RotatedGraph {
 public:
  RotatedGraph(Graph graph, const std::vector<Rotation>& rotations, int64_t block)
      : graph_(std::move(graph)), block_(block), result_(graph_.name()) {
    result_.set_requantization(graph_.requantization());
    for (const Rotation& rotation : rotations) {
      for (const std::string& sink : rotation.sinks) rotate_inputs(graph_.node(sink));
      if (!rotation.source.empty()) {
        rotate_outputs(graph_.node(rotation.source));
      } else {
        added_[rotation.value.node].push_back(&rotation);
      }
    }
  }

  Graph made() {
    for (const Node& node : graph_.nodes()) {
      if (const auto type = graph_.input_types().find(node.name); type != graph_.input_types().end()) {
        result_.add_input(node.name, type->second);
        result_.node(node.name) = node;
      } else {
        result_.add(node);
      }
      for (const Rotation* rotation : added_[node.name]) add(*rotation);
    }
    return std::move(result_);
  }

 private:
  void rotate_inputs(Node& layer) const {
    Tensor& weight = layer.find_parameter("weight")->tensor;
    weight = with_rotated_inputs(weight, block_);
    layer.statistics = {};
  }

  void rotate_outputs(Node& layer) const {
    for (auto& [name, parameter] : layer.parameters)
      parameter->tensor = with_rotated_outputs(parameter->tensor, block_);
    layer.statistics = {};
  }

  std::string new_name(const std::string& name) const {
    std::string result = name;
    const auto is_taken = [&] { return graph_.find(result) != nullptr || result_.find(result) != nullptr; };
    for (int number = 1; is_taken(); ++number) result = fmt::format("{}_{}", name, number);
    return result;
  }

  NodeInput call(const std::string& name, const char* op, std::vector<NodeInput> inputs,
                 Table attributes = {}) {
    Node node{.name = new_name(name), .op = op, .mase_type = find_operator(op).mase_type};
    node.inputs = std::move(inputs);
    node.attributes = std::move(attributes);
    return NodeInput::of(result_.add(std::move(node)).name);
  }

  /// x in the shape [..., blocks, block], or [..., features].
  NodeInput reshaped(const std::string& name, const NodeInput& x, size_t kept,
                     const std::vector<int64_t>& sizes) {
    List shape(kept, Value(0));
    for (const int64_t size : sizes) shape.emplace_back(size);
    return call(name, "dynamic_reshape", {x, NodeInput::of_constant(Value(std::move(shape)))});
  }

  const NodeInput& matrix() {
    if (!matrix_.node.empty()) return matrix_;
    Node node{.name = new_name(fmt::format("hadamard_{}", block_)), .op = "get_attr"};
    node.target = node.name;
    node.mase_type = MaseType::kGetAttr;
    node.parameters.emplace_back("value", Parameter{hadamard_matrix(block_), false});
    matrix_ = NodeInput::of(result_.add(std::move(node)).name);
    return matrix_;
  }

  void add(const Rotation& rotation) {
    const size_t kept = rotation.rank - 1;
    const std::string name =
        rotation.value.node + (rotation.value.result == 0 ? "" : fmt::format("_{}", rotation.value.result));
    NodeInput x = rotation.value;
    const bool has_blocks = rotation.features != block_;
    if (has_blocks) x = reshaped(name + "_blocks", x, kept, {rotation.features / block_, block_});
    x = call(name + "_rotated", "einsum", {x, matrix()}, {{"equation", "...i,ij->...j"}});
    if (has_blocks) x = reshaped(name + "_joined", x, kept, {rotation.features});
    for (const std::string& sink : rotation.sinks) graph_.node(sink).inputs[0] = x;
  }

  Graph graph_;
  int64_t block_;
  Graph result_;
  std::map<std::string, std::vector<const Rotation*>> added_;
  NodeInput matrix_;
};

}  // namespace

Rotations find_rotations(const Graph& graph, int64_t block) {
  return RotationSearch(graph, block).rotations();
}

Graph with_rotations(const Graph& graph, const std::vector<Rotation>& rotations, int64_t block) {
  return RotatedGraph(graph, rotations, block).made();
}

}  // namespace detent

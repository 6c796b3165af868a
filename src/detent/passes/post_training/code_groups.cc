#include "detent/passes/post_training/code_groups.h"

#include <algorithm>
#include <map>
#include <set>

#include "detent/graph/operator_arguments.h"
#include "detent/graph/operators.h"
#include "detent/inference/node_form.h"

namespace detent {
namespace {

enum class CodeRole { kSums, kComputes, kJoins, kPasses, kClamps, kStructure, kFloat };

/// True for two tensors, but for divisions, and for a tensor and a constant number.
bool pair_has_form(PairOperation operation, const Node& node, const ValueTypes& types) {
  size_t tensors = 0;
  size_t numbers = 0;
  for (const NodeInput& input : node.inputs) {
    double scratch = 0;
    if (input.is_constant()) {
      numbers += static_cast<size_t>(input.constant.number(scratch) != nullptr);
    } else {
      tensors += static_cast<size_t>(types.at(value_name(input)).is_tensor());
    }
  }
  return (tensors == 2 && operation != PairOperation::kDiv) || (tensors == 1 && numbers == 1);
}

/// Whether the sums fit into 32 bits whatever the widths are.
bool product_has_form(const Node& node, const ValueTypes& types) {
  if (node.inputs[0].is_constant()) return false;
  const Shape& shape = types.at(value_name(node.inputs[0])).shape;
  return shape.empty() || shape.back() <= ProductForm::kDepth;
}

CodeRole code_role(const Node& node, const ValueTypes& types) {
  if (role_of(node) != OperatorRole::kComputes) return CodeRole::kStructure;
  if (is_weighted_sum(node)) return CodeRole::kSums;
  const auto* movement = trait<Movement>(node);
  if (movement != nullptr && movement->joins) return CodeRole::kJoins;
  if (moves_codes(node)) return CodeRole::kPasses;
  if (clamp_of(node) != nullptr) return CodeRole::kClamps;
  if (const auto* operation = trait<PairOperation>(node)) {
    return pair_has_form(*operation, node, types) ? CodeRole::kComputes : CodeRole::kFloat;
  }
  if (trait<MatrixProduct>(node) != nullptr)
    return product_has_form(node, types) ? CodeRole::kComputes : CodeRole::kFloat;
  const bool has_form = trait<Unary>(node) != nullptr || is_pooling(node, Pooling::Of::kMean);
  return has_form ? CodeRole::kComputes : CodeRole::kFloat;
}

/// Whether the node's result is rows of its weight, by index.
bool looks_rows_up(const Node& node) {
  const OperatorSchema& schema = find_operator(node.op);
  const bool takes_indices =
      std::ranges::find(schema.index_operands, "data_in_0") != schema.index_operands.end();
  const Parameter* weight = node.find_parameter("weight");
  return takes_indices && weight != nullptr && schema.weight_channel_dim &&
         weight->tensor.dtype() == DType::kFloat32 && weight->tensor.numel() > 0;
}

/// The weights of recurrent layers among `in_float`, which nothing else reads.
std::vector<ConstantWeight> constant_weights(const Graph& graph, const std::vector<size_t>& in_float) {
  std::map<size_t, size_t> readers;
  for (const Node& node : graph.nodes())
    for (const NodeInput& input : node.inputs)
      if (!input.is_constant()) ++readers[graph.position(input.node)];
  std::vector<ConstantWeight> found;
  std::map<size_t, size_t> as_weights;
  for (const size_t position : in_float) {
    const Node& node = graph.nodes()[position];
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i].is_constant() || !is_recurrent_weight(node, i)) continue;
      const size_t constant = graph.position(node.inputs[i].node);
      const Parameter* value = graph.nodes()[constant].find_parameter("value");
      if (role_of(graph.nodes()[constant]) != OperatorRole::kConstant || value == nullptr) continue;
      const Tensor& tensor = value->tensor;
      if (tensor.dtype() != DType::kFloat32 || tensor.rank() < 2 || tensor.numel() == 0) continue;
      found.push_back({position, constant});
      ++as_weights[constant];
    }
  }
  std::erase_if(found, [&](const ConstantWeight& weight) {
    return as_weights[weight.constant] != readers[weight.constant];
  });
  return found;
}

bool computes(CodeRole role) {
  return role == CodeRole::kSums || role == CodeRole::kComputes || role == CodeRole::kJoins;
}

/// Values of positions, as angles of rotary embeddings are: they follow from shapes and constants, and a few
/// hundred codes do not tell the places of a long sequence apart.
class PositionValues {
 public:
  PositionValues(const Graph& graph, const ValueTypes& types) {
    for (const Node& node : graph.nodes()) {
      if (role_of(node) == OperatorRole::kConstant) constants_.insert(node.name);
      if (follow_in(node, types)) names_.insert(node.name);
    }
  }
  bool contains(const std::string& node) const { return names_.contains(node); }

 private:
  bool follow_in(const Node& node, const ValueTypes& types) const {
    if (role_of(node) != OperatorRole::kComputes || !node.parameters.empty()) return false;
    const Operand& result = types.at(value_name(node.name));
    if (result.elements && result.dtype != DType::kFloat32) return true;
    bool any = false;
    for (const NodeInput& input : node.inputs) {
      if (input.is_constant()) continue;
      if (!names_.contains(input.node) && !constants_.contains(input.node)) return false;
      any = any || names_.contains(input.node);
    }
    return any;
  }

  std::set<std::string, std::less<>> names_;
  std::set<std::string, std::less<>> constants_;
};

}  // namespace

CodePlan plan_codes(const Graph& graph, const std::set<std::string, std::less<>>& kept_in_float,
                    const std::set<std::string, std::less<>>& unrounded) {
  CodePlan plan;
  std::map<std::string, std::string, std::less<>> root_of;
  std::map<std::string, CodeGroup, std::less<>> groups;
  std::vector<std::string> order;
  std::vector<size_t> in_float;
  const ValueTypes types = infer_shapes(graph);
  const PositionValues positions(graph, types);
  plan.exact_values = exact_values(graph, types);
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    CodeRole role = kept_in_float.contains(node.name) ? CodeRole::kFloat : code_role(node, types);
    // Nodes that compute shapes and positions have nothing to quantize.
    const bool is_of_integers = role != CodeRole::kStructure && types.at(node.name).dtype != DType::kFloat32;
    if (is_of_integers || positions.contains(node.name)) role = CodeRole::kStructure;
    const bool has_form = computes(role) || role == CodeRole::kClamps;
    if (has_form && plan.exact_values.computed.contains(node.name)) {
      plan.exact.push_back(node.name);
      role = CodeRole::kStructure;
    }
    const bool passes = role == CodeRole::kPasses || role == CodeRole::kClamps;
    root_of[node.name] = passes ? root_of.at(node.inputs[0].node) : node.name;
    if (plan.exact_values.results.contains(node.name) || unrounded.contains(node.name))
      groups[root_of[node.name]].is_exact = true;
    if (role == CodeRole::kClamps) {
      CodeGroup& clamped = groups[root_of[node.name]];
      clamped.clamps.push_back(i);
      clamped.root_needs_type = true;
    }
    if (role == CodeRole::kSums) plan.weighted.push_back(i);
    if (role == CodeRole::kFloat) plan.in_float.push_back(node.name);
    if (role == CodeRole::kFloat && !kept_in_float.contains(node.name)) in_float.push_back(i);
    if (looks_rows_up(node) && !kept_in_float.contains(node.name)) plan.rows.push_back(i);
    if (passes) continue;
    CodeGroup& own = groups[node.name];
    own.root = node.name;
    own.root_needs_type = role == CodeRole::kComputes || role == CodeRole::kJoins;
    order.push_back(node.name);
    if (!computes(role)) continue;
    for (size_t input = 0; input < node.inputs.size(); ++input) {
      if (node.inputs[input].is_constant()) continue;
      const std::string& giver = node.inputs[input].node;
      groups[root_of.at(giver)].reads.push_back({i, input, value_name(node.inputs[input])});
    }
  }
  plan.constants = constant_weights(graph, in_float);
  for (const std::string& root : order) {
    CodeGroup& group = groups.at(root);
    if (!group.reads.empty() || group.root_needs_type) plan.groups.push_back(std::move(group));
  }
  return plan;
}

bool quantize_result(Graph& graph, const CodePlan& plan, const CodeGroup& group,
                     const QuantizerRef& quantizer) {
  if (group.is_exact || std::ranges::find(plan.in_float, group.root) != plan.in_float.end()) return false;
  graph.node(group.root).quantization["data_out_0"] = quantizer;
  for (const size_t position : group.clamps) {
    graph.nodes()[position].quantization["data_in_0"] = quantizer;
    graph.nodes()[position].quantization["data_out_0"] = quantizer;
  }
  return true;
}

}  // namespace detent

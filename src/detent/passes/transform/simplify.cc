#include <algorithm>
#include <set>

#include "detent/core/error.h"
#include "detent/graph/operators.h"
#include "detent/passes/passes.h"
#include "detent/passes/transform/graph_edits.h"

// Simplifications that leave every output as it is, to the last bit: nodes that the output does not depend on
// go, and so does the computation of what depends on no input. A layer's sums alone may round otherwise than
// those of the node whose computed weight it has.

namespace detent {
namespace {

struct CheckOptions {
  bool check = true;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("check", self.check, "compare the outputs on calibration samples before and after");
  }
};

void run_remove_dead_nodes(Graph& graph, const CheckOptions& options, PassContext& context) {
  const Graph before = graph;
  const size_t count = remove_unreachable_nodes(graph);
  verify(graph);
  if (options.check && count > 0) check_same_outputs(before, graph, 0, context);
  context.report(fmt::format("remove_dead_nodes: {} of {} nodes removed\n", count, before.nodes().size()));
}

/// Nodes that compute on tensors which the network owns, and nothing else.
std::set<std::string, std::less<>> constant_nodes(const Graph& graph) {
  std::set<std::string, std::less<>> constant;
  for (const Node& node : graph.nodes()) {
    const auto is_constant = [&](const NodeInput& input) {
      return input.is_constant() || constant.contains(input.node);
    };
    const OperatorSchema& schema = find_operator(node.op);
    const bool computes =
        schema.role != OperatorRole::kOutput && schema.role != OperatorRole::kInput && !schema.random;
    if (computes && std::ranges::all_of(node.inputs, is_constant)) constant.insert(node.name);
  }
  return constant;
}

/// `node` as a tensor that the network owns, holding `value`.
Node owned_tensor(const Node& node, Tensor value) {
  Node result;
  result.name = node.name;
  result.target = node.name;
  result.op = "get_attr";
  result.mase_type = MaseType::kGetAttr;
  result.parameters.emplace_back("value", Parameter{std::move(value), false});
  result.statistics.results = node.statistics.results;
  const auto quantizer = node.quantization.find("data_out_0");
  if (quantizer != node.quantization.end()) result.quantization.insert(*quantizer);
  return result;
}

void run_fold_constants(Graph& graph, const CheckOptions& options, PassContext& context) {
  const Graph before = graph;
  const std::set<std::string, std::less<>> constant = constant_nodes(graph);
  std::map<std::string, Tensor, std::less<>> values;
  // A tensor of the network's own is one result: what splits a constant stays, and its readers are computed.
  const auto is_computed = [&](const Node& node) {
    return role_of(node) != OperatorRole::kConstant && constant.contains(node.name) &&
           result_count(node) == 1;
  };
  auto observation = Observation::of_none(ObservedValues::kBeforeQuantization);
  observation.see = [&](const Node& node, std::string_view /*operand*/, const Tensor& value) {
    values[node.name] = value.clone();
  };
  for (const Node& node : before.nodes())
    if (is_computed(node)) observation.operands->emplace(node.name, "data_out_0");
  if (!observation.operands->empty()) {
    const auto data = context.open_calibration();
    const SampleRange range = calibration_batches(*data, graph, 1, 1).front();
    context.executor().run(graph, data->inputs(range.begin, range.end), observation);
  }
  for (Node& node : graph.nodes()) {
    if (const auto value = values.find(node.name); value != values.end()) {
      node = owned_tensor(node, std::move(value->second));
    }
  }
  constexpr double kSumsTolerance = 1e-5;
  const size_t layers = make_constant_layers(graph);
  const size_t neutral = bypass_neutral_nodes(graph);
  remove_unreachable_nodes(graph);
  verify(graph);
  if (options.check && (layers > 0 || neutral > 0 || !values.empty()))
    check_same_outputs(before, graph, layers > 0 ? kSumsTolerance : 0, context);
  const std::string made = layers == 0 ? "" : fmt::format(", {} made layers by their weights", layers);
  const std::string removed = neutral == 0 ? "" : fmt::format(", {} removed that change nothing", neutral);
  context.report(fmt::format("fold_constants: {} nodes computed{}{}\n", values.size(), made, removed));
}

}  // namespace

PassInfo remove_dead_nodes_pass() {
  return make_pass("remove_dead_nodes", PassKind::kTransform,
                   "removes nodes that the output does not depend on", run_remove_dead_nodes);
}

PassInfo fold_constants_pass() {
  return make_pass("fold_constants", PassKind::kTransform,
                   "computes what depends on no input once; such weights become layer weights",
                   run_fold_constants);
}

}  // namespace detent

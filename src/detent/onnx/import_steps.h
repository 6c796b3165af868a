#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "detent/graph/graph.h"

namespace onnx {
class AttributeProto;
class FunctionProto;
class GraphProto;
class NodeProto;
}  // namespace onnx

namespace detent {

// Fields of ONNX files that the headers of some distributions do not have yet.

/// Which of several functions of a name: of the function, and of what calls it.
std::string overload_of(const onnx::FunctionProto& function);
std::string overload_of(const onnx::NodeProto& node);

/// Attributes that a call of the function need not give. Throws Error where they are damaged.
std::vector<onnx::AttributeProto> default_attributes(const onnx::FunctionProto& function);

class NodeImport;

/// The graph with one name for the batch, where inputs have several and the network takes equal sizes alone.
Graph with_joined_batches(Graph graph);

/// The graph with names of their own for open sizes that share one and need not be the same.
Graph with_independent_sizes(Graph graph);

/// If, Loop, Scan and SequenceMap, whose bodies are graphs within the node.
bool has_subgraphs(const onnx::NodeProto& node);

/// A tensor whose first dimension becomes dimension `axis`, the others keeping their order.
NodeInput with_first_dim_at(NodeImport& import, NodeInput rows, int64_t axis);

/// Which inputs a Scan takes apart, and how it joins results.
struct ScanForm {
  int64_t carried = 0;
  std::optional<int64_t> length = {};  // nothing where the size is open
  std::vector<int64_t> axes = {}, reversed = {};
  std::vector<int64_t> result_axes = {}, result_reversed = {};
};
/// How many values a Loop carries from one iteration to the next. Throws Error where its body does not fit.
int loop_carried(const onnx::NodeProto& node, const onnx::GraphProto& body);
ScanForm scan_form(const NodeImport& import, const onnx::GraphProto& body);

/// The graph that an attribute of the node is. Throws Error where it has none.
const onnx::GraphProto& subgraph(const onnx::NodeProto& node, const char* name);

/// The condition, one bool, without dimensions.
NodeInput scalar_condition(NodeImport& import, NodeInput condition);

/// The values that a node reads, and those that nodes in its subgraphs do, are added to `names`.
void collect_reads(const onnx::NodeProto& node, std::set<std::string>& names);

/// Takes inputs of strings out of the graph, and the nodes and outputs that follow from them: labels and
/// identifiers that pass by a network. Returns what is left out, in words; nothing where no output is left,
/// and then the graph stays as it is.
std::string leave_out_texts(onnx::GraphProto& graph);

/// The nodes so that each follows those that it reads, subgraphs included, otherwise in their order.
/// Exporters write them so; tools that change models do not always. Nodes on a cycle come last, and are
/// refused when they read what is not there.
std::vector<const onnx::NodeProto*> in_execution_order(const onnx::GraphProto& graph);

/// Makes one node of those that exporters write for an activation function: gelu of products of x, 1/2 and
/// 1 + erf(x / sqrt 2), or 1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)); silu of x sigmoid(x); hardswish of
/// x hardsigmoid(x). What nothing reads any more stays.
void recognize_activations(Graph& graph);

/// Puts a layer_norm in the place of what exporters before opset 17 took one apart into: (x - mean(x)) /
/// sqrt( mean((x - mean(x))^2) + eps) * weight + bias over the last dimension; and an rms_norm in that of x /
/// sqrt(mean(x^2) + eps) * weight. Where something else reads a value inside, it stays as it is.
void recognize_norms(Graph& graph);

/// mean(x) over all places of images becomes the global average pool that it is, which has an integer form.
/// The means of a norm that an exporter took apart stay: those of a square, or subtracted from something.
void recognize_pools(Graph& graph);

/// Where layers or products of matrices compute the same as earlier ones, as the steps of a loop do that an
/// exporter has written out, the earlier nodes are read instead. Nothing reads the later ones any more. What
/// else repeats stays where no layer does.
void merge_repeated_layers(Graph& graph);

/// Nodes that only round, which `roundings` names, become quantizers of the operands that read them, which
/// then read what was rounded. Nothing reads those nodes any more.
void move_roundings_to_operands(Graph& graph, const std::set<std::string>& roundings);

/// A value that all readers round in one way is rounded where it is computed too, or stored as codes where it
/// is a constant, with the same quantizer, unless rounding twice gives something else, as with a scale that
/// follows from the data.
void round_where_computed(Graph& graph);

/// Layers that have become others by computing on codes.
struct CodeComputation {
  std::vector<std::string> in_float = {};
  std::vector<std::string> rounded_biases = {};  // which are no multiples of the steps of the sums
};

/// Lets nodes whose operands are codes compute on these. Layers whose sums may not fit into 32 bits, as where
/// an exporter has cut a bias off, take the floats that the codes of their weights stand for.
CodeComputation let_compute_on_codes(Graph& graph);

/// Advice on how to export a model without an operator that is not supported; "" where nothing is known.
std::string_view export_advice(std::string_view domain, std::string_view op);

}  // namespace detent

#pragma once

#include <set>
#include <string>
#include <vector>

#include "detent/graph/graph.h"

namespace onnx {
class GraphProto;
class NodeProto;
}  // namespace onnx

namespace detent {

class NodeImport;

/// If, Loop, Scan and SequenceMap, whose bodies are graphs within the node.
bool has_subgraphs(const onnx::NodeProto& node);

/// The graph that an attribute of the node is. Throws Error where it has none.
const onnx::GraphProto& subgraph(const onnx::NodeProto& node, const char* name);

/// The condition, one bool, without dimensions.
NodeInput scalar_condition(NodeImport& import, NodeInput condition);

/// The values that a node reads, and those that nodes in its subgraphs do, are added to `names`.
void collect_reads(const onnx::NodeProto& node, std::set<std::string>& names);

/// The nodes so that each follows those that it reads, subgraphs included, otherwise in their order.
/// Exporters write them so; tools that change models do not always. Nodes on a cycle come last, and are
/// refused when they read what is not there.
std::vector<const onnx::NodeProto*> in_execution_order(const onnx::GraphProto& graph);

}  // namespace detent

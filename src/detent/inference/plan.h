#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "detent/core/text_table.h"
#include "detent/graph/graph.h"
#include "detent/graph/operators.h"
#include "detent/inference/code_type.h"
#include "detent/inference/node_form.h"

namespace detent {

/// How a node computes in integer execution.
enum class NodeEngine {
  kGiven,  // not at all: inputs, outputs, constants, numbers that follow from shapes
  kCodes,  // on codes, by its form
  kMoves,  // moves or compares elements, be they codes or values
  kFloat,  // in float, from dequantized values
};

/// `form` is the node's; `values` are infer_shapes of its graph.
NodeEngine node_engine(const Node& node, const std::optional<NodeForm>& form, const ValueTypes& values);

struct PlannedNode {
  std::string node;
  std::string op;
  NodeEngine engine = NodeEngine::kGiven;
  std::string why = {};  // of kFloat
  /// Operands to dequantize.
  std::vector<std::string> dequantized = {};
  /// Operands to quantize.
  std::vector<std::string> quantized = {};
};

/// In execution order. Throws Error as node_form does.
std::vector<PlannedNode> integer_plan(const Graph& graph);

/// Also the nodes of each loop's body that computes on codes, after the loop: "loop.conv1".
std::vector<PlannedNode> integer_plan_with_bodies(const Graph& graph);

/// Counts of nodes by way of computing, and those in float with reasons, in lines of 80 columns.
std::string plan_summary(std::span<const PlannedNode> plan);
/// "integers", "integers, moved", "float"; "" of what is given.
const char* engine_text(NodeEngine engine);

/// A row per node.
TextTable plan_table(std::span<const PlannedNode> plan);

/// Code types by value_name: of nodes that declare them, and of those that only move or compare codes of one
/// type. Others give floats.
std::map<std::string, CodeType> result_types(const Graph& graph);

}  // namespace detent

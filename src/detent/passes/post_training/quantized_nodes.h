#pragma once

#include <set>
#include <string>

#include "detent/graph/graph.h"
#include "detent/passes/post_training/code_groups.h"
#include "detent/passes/post_training/static_quantize_options.h"
#include "detent/passes/transform/node_bits.h"

namespace detent {

// The nodes that static quantization gives codes, by the structure of the network and the options that name
// nodes: keep_float wins over bits and formats, these over the rest. Errors begin with `where`. Nodes in the
// bodies of loops are called "loop.node"; `prefix` is "loop." in a body and "" outside.

using NodeNames = std::set<std::string, std::less<>>;

/// Before calibration: samples may show that more nodes have to stay in float.
CodePlan plan_without_samples(const Graph& graph, const StaticQuantizeOptions& options,
                              const std::string& prefix, const std::string& where);

/// `in_float` compute in float unless `bits` names them; results of `unrounded` stay as they are. Throws
/// NothingToQuantize where neither the graph nor a loop in it has a layer left.
CodePlan plan_nodes(const Graph& graph, const StaticQuantizeOptions& options, const NodeBitsMatcher& bits,
                    const std::string& where, const NodeNames& in_float = {},
                    const NodeNames& unrounded = {});

/// Whether a loop of the graph has layers in its body.
bool has_layers_in_bodies(const Graph& graph, const StaticQuantizeOptions& options, const std::string& where);

/// In the graph and the bodies of its loops; a body without layers stays in float.
NodesWithWidths nodes_with_widths(const Graph& graph, const CodePlan& plan,
                                  const StaticQuantizeOptions& options, const std::string& where);

/// Error where a pattern of keep_float names no node of the graph and its loops, or none that others do not.
void check_keep_float(const Graph& graph, const StaticQuantizeOptions& options, const std::string& where);

/// Error where a node of the graph has a quantizer.
void check_unquantized(const Graph& graph, const std::string& where);

}  // namespace detent

#pragma once

#include <string>

#include "detent/core/value.h"
#include "detent/graph/graph.h"

namespace detent {

/// A node's metadata as MASE's files lay it out: common (mase_type, mase_op, args, results), hardware,
/// software (args and results, each operand with a `stat` table). Parts that no pass has filled are left out.
Table metadata_table(const Node& node);
/// All nodes, by name, in order.
Table metadata_table(const Graph& graph);

/// Replaces the metadata of every node by that of `table`. Throws Error (beginning with `source`) when the
/// nodes are not the graph's own, naming the first that is missing or unknown, or an entry has the wrong
/// type.
void load_metadata_table(Graph& graph, const Table& table, const std::string& source);

}  // namespace detent

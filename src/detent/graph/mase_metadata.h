#pragma once

#include <functional>
#include <optional>
#include <string>

#include "detent/core/value.h"
#include "detent/graph/graph.h"
#include "detent/graph/operators.h"

namespace detent {

// MASE's metadata, derived from the graph on demand so that it cannot be out of date; a graph holds only
// measurements (node_statistics.h).

/// Facts about one argument or result of a node.
struct OperandInfo {
  std::string type = "float";    // "float", the name of a format ("fixed", "ternary", ...), or of a dtype
  List precision = {Value(32)};  // [32] for float; a format's parameters in the order of its fields
  Shape size;                    // dimensions, named ones 1
  std::optional<std::string>
      from;     // producing node; "NA" for a constant; nullopt for a parameter or a result
  Value value;  // NA unless a compile-time constant

  bool operator==(const OperandInfo&) const = default;
};

struct CommonMetadata {
  OperandMap<OperandInfo> args;
  OperandMap<OperandInfo> results;
  bool operator==(const CommonMetadata&) const = default;
};

/// `values` are infer_shapes of the node's graph.
CommonMetadata common_metadata(const Node& node, const ValueTypes& values);

/// A node's metadata in MASE's layout: common (mase_type, mase_op, args, results), hardware (nothing),
/// software (args and results, each operand with a `stat` table).
Table metadata_table(const Node& node, const ValueTypes& values);
/// All nodes, by name, in order.
Table metadata_table(const Graph& graph);

/// Takes over the statistics of `table`. Where its common metadata differ from the graph's, `differs` is told
/// what and where. Throws Error (beginning with `source`) when the nodes are not the graph's own, naming the
/// first that is missing or unknown, or an entry has the wrong type.
void load_metadata_table(Graph& graph, const Table& table, const std::string& source,
                         const std::function<void(const std::string&)>& differs);

}  // namespace detent

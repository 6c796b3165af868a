#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "detent/graph/graph.h"
#include "detent/graph/operators.h"

namespace detent {

/// Cuts a network into parts that run by themselves. What does not begin with the batch, or has it elsewhere
/// too (sizes, tensors that the graph owns, windows of all samples), what is not float32, and what has
/// several results, is computed again in each part that reads it.
class GraphCut {
 public:
  /// `graph` must outlive this; its parameters and specs may change, its nodes may not.
  explicit GraphCut(const Graph& graph);

  /// Names of the values from before node `index` that it or later nodes read.
  std::vector<std::string> read_from(size_t index) const;

  /// The part that computes `captured` from the values that `is_there` names, with a node of capture_name
  /// that reads each. Its placeholders are named as the values that it takes, in alphabetical order; its
  /// output is the last of `captured`.
  Graph part(const std::function<bool(const std::string&)>& is_there,
             const std::vector<NodeInput>& captured) const;

  std::string capture_name(size_t index) const;

 private:
  bool is_recomputed(const Node& node) const;

  const Graph& graph_;
  std::string captured_;  // how the names of such nodes begin
  ValueTypes values_;
  ValueTypes values_of_others_;              // of other sizes of what is open
  std::optional<ValueTypes> values_of_two_;  // samples
};

}  // namespace detent

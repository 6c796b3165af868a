#pragma once

#include <string>
#include <variant>
#include <vector>

#include "detent/graph/graph.h"
#include "detent/passes/transform/value_lists.h"

namespace detent {

/// What becomes one layer of truth tables:
///
///     rounded -> [batch norm, activation] -> layer -> [batch norm, activation] -> rounded
struct TableChain {
  std::vector<std::string> head;  // between what is rounded and the layer, in order
  std::string layer;
  std::vector<std::string> tail;  // between the layer and what is rounded
  ValueList inputs;               // what the first node takes in
  Quantizer result;               // what the last node's result is rounded to
  ValueList results;

  const std::string& first() const { return head.empty() ? layer : head.front(); }
  const std::string& last() const { return tail.empty() ? layer : tail.back(); }
};

/// The chain around a weighted sum, or why there is none.
std::variant<TableChain, std::string> table_chain(const Graph& graph, const Node& layer,
                                                  const ValueLists& values);

}  // namespace detent

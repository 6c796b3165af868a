#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "detent/graph/graph.h"

namespace detent {

/// Values of an operand, ascending.
using ValueList = std::vector<float>;

/// Values of a quantizer. nullopt where the list follows from the data, is one for each channel, or has more
/// than 2^16 values.
std::optional<ValueList> values_of(const Quantizer& quantizer);

/// The finite lists of values that operands of a graph have: those of its quantizers and tables, and what
/// moves, compares or clamps values that have one.
class ValueLists {
 public:
  explicit ValueLists(const Graph& graph);

  /// nullptr where there is none.
  const ValueList* of_result(const std::string& value) const;
  /// Values of the node's input: rounded by its quantizer, or as they come.
  std::optional<ValueList> of_operand(const Node& node, size_t input) const;

 private:
  std::optional<ValueList> result_of(const Node& node) const;

  std::map<std::string, ValueList, std::less<>> results_;
};

/// Chain that becomes one layer of truth tables:
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

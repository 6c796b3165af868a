#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "detent/graph/graph.h"

namespace detent {

/// Values that an operand can have, ascending.
using ValueList = std::vector<float>;

/// What a quantizer rounds to. nullopt where the list follows from the data, is one for each channel, or has
/// more than 2^16 values.
std::optional<ValueList> values_of(const Quantizer& quantizer);

/// The finite lists of values that operands of a graph have: those of its quantizers and tables, and what
/// moves, compares or clamps values that have one.
class ValueLists {
 public:
  explicit ValueLists(const Graph& graph);

  /// nullptr where there is none.
  const ValueList* of_result(const std::string& value) const;
  /// What the node takes in: rounded by its quantizer, or as the value comes.
  std::optional<ValueList> of_operand(const Node& node, size_t input) const;
  /// Says what a result can be from here on.
  void set_result(const std::string& value, ValueList values) { results_[value] = std::move(values); }

 private:
  std::optional<ValueList> result_of(const Node& node) const;

  std::map<std::string, ValueList, std::less<>> results_;
};

}  // namespace detent

#pragma once

#include <set>
#include <string>

#include "detent/graph/graph.h"
#include "detent/graph/operators.h"

namespace detent {

/// Values that codes of a few bits would spoil, by the names of the nodes that give them. Categories, places
/// and counts among floats become integers as they are, not as the nearest code; a variance that is a
/// difference of means needs both to more digits than a code has.
struct ExactValues {
  using Names = std::set<std::string, std::less<>>;

  /// Not to be rounded: casts to integers and comparisons follow from them, or differences that are divided
  /// by or have roots or logarithms taken of.
  Names results;
  Names computed;  // nodes among those that make them of others of them, and so compute in float
  /// Not to be rounded to 0: elements of theirs divide, or logarithms are taken of them.
  Names divisors;
  Names bare;  // those of the divisors that nothing is added to or computed of before
};

ExactValues exact_values(const Graph& graph, const ValueTypes& types);

/// Whether the node's function is infinite or not defined at 0, as a logarithm or a reciprocal.
bool has_pole(const Node& node);
/// Whether each element of the result is a function of single elements.
bool computes_by_element(const Node& node);

}  // namespace detent

#pragma once

#include <set>
#include <string>

#include "detent/graph/graph.h"
#include "detent/graph/operators.h"

namespace detent {

/// Names of nodes whose values low-bit codes would spoil: categories, positions and counts among floats
/// become integers exactly, and a variance computed as a difference of means needs more digits than a code
/// has.
struct ExactValues {
  using Names = std::set<std::string, std::less<>>;

  /// Not rounded: integers, comparisons, or differences that are divided by, or whose roots or logarithms are
  /// taken, depend on them.
  Names results;
  Names computed;  // nodes among those that make them of others of them, and so compute in float
  /// Not rounded to 0: their elements are divisors or arguments of logarithms.
  Names divisors;
  Names bare;  // those of the divisors that nothing is added to or computed of before
};

ExactValues exact_values(const Graph& graph, const ValueTypes& types);

/// Whether the node's function is infinite or undefined at 0, such as a logarithm or a reciprocal.
bool has_pole(const Node& node);
/// Whether the node is elementwise.
bool computes_by_element(const Node& node);

}  // namespace detent

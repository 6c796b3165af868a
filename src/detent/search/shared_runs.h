#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "detent/graph/graph.h"
#include "detent/passes/post_training/code_groups.h"
#include "detent/search/space.h"

namespace detent {

/// A network that runs from the first node where it departs from another one of its family.
struct SharedRun {
  size_t assignment = 0;              // its index in the given list
  size_t first = 0;                   // node
  std::optional<size_t> parent = {};  // its index in the family; none: run whole
};

/// The first runs whole; the others reuse what they have in common with an earlier one.
using RunFamily = std::vector<SharedRun>;

/// How networks of a space share the computation of their first nodes.
class SharedRuns {
 public:
  SharedRuns(const Graph& network, const CodePlan& plan, const SearchSpace& space);

  /// Each of the assignments, which differ, once, in families of at most so many.
  std::vector<RunFamily> families(const std::vector<Assignment>& assignments, size_t most) const;
  /// Cost of these in runs of a whole network: each counts as the share of the products from its first node.
  double runs(const std::vector<RunFamily>& families) const;
  /// The share of the second where it is run after the first.
  double share_after(const Assignment& before, const Assignment& after) const {
    return share_from_[first_difference(before, after)];
  }

 private:
  size_t first_difference(const Assignment& a, const Assignment& b) const;

  std::vector<size_t> begins_;      // of each choice, the first node that depends on it
  std::vector<size_t> by_begin_;    // choices
  std::vector<double> share_from_;  // products from each node on, of those of the network
};

}  // namespace detent

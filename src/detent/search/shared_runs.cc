#include "detent/search/shared_runs.h"

#include <algorithm>
#include <numeric>

#include "detent/passes/analysis/network_cost.h"

namespace detent {

SharedRuns::SharedRuns(const Graph& network, const CodePlan& plan, const SearchSpace& space) {
  for (const Choice& choice : space.choices) begins_.push_back(choice.node);
  for (const CodeGroup& group : plan.groups) {
    // Who reads a value decides the format that it is rounded to where it is computed.
    const size_t root = network.position(group.root);
    for (const CodeRead& read : group.reads) {
      for (size_t c = 0; c < begins_.size(); ++c) {
        const Choice& choice = space.choices[c];
        if (choice.operand == kInputOperand && choice.node == read.node)
          begins_[c] = std::min(begins_[c], root);
      }
    }
  }
  by_begin_.resize(begins_.size());
  std::iota(by_begin_.begin(), by_begin_.end(), size_t{0});
  std::ranges::stable_sort(by_begin_, {}, [&](size_t c) { return begins_[c]; });
  share_from_ = node_multiply_adds(network);
  share_from_.push_back(0);
  for (size_t i = share_from_.size() - 1; i-- > 0;) share_from_[i] += share_from_[i + 1];
  const double all = share_from_.front();
  for (double& share : share_from_) share /= all;
}

size_t SharedRuns::first_difference(const Assignment& a, const Assignment& b) const {
  for (const size_t c : by_begin_) {
    if (a[c] != b[c]) return begins_[c];
  }
  return share_from_.size() - 1;
}

std::vector<RunFamily> SharedRuns::families(const std::vector<Assignment>& assignments, size_t most) const {
  std::vector<size_t> order(assignments.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // Candidates that begin alike stand together.
  std::ranges::stable_sort(order, [&](size_t i, size_t j) {
    for (const size_t c : by_begin_) {
      if (assignments[i][c] != assignments[j][c]) return assignments[i][c] < assignments[j][c];
    }
    return false;
  });
  std::vector<RunFamily> families;
  for (size_t k = 0; k < order.size(); ++k) {
    std::optional<size_t> parent;
    size_t first = 0;
    if (k > 0 && families.back().size() < most) {
      const RunFamily& family = families.back();
      first = first_difference(assignments[order[k - 1]], assignments[order[k]]);
      // The one before may itself be run from there on only: then both part from its parent.
      parent = family.size() - 1;
      while (parent && family[*parent].first >= first) parent = family[*parent].parent;
    }
    if (!parent) families.emplace_back();
    families.back().push_back({order[k], parent ? first : 0, parent});
  }
  return families;
}

double SharedRuns::runs(const std::vector<RunFamily>& families) const {
  double sum = 0;
  for (const RunFamily& family : families) {
    for (const SharedRun& run : family) sum += share_from_[run.first];
  }
  return sum;
}

}  // namespace detent

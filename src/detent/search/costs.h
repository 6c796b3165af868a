#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "detent/graph/graph.h"
#include "detent/search/knapsack.h"
#include "detent/search/space.h"

namespace detent {

/// Costs of a network.
struct Costs {
  int64_t bytes = 0;              // of its weights, with scales and biases
  double weight_bits = 0;         // a weight, likewise
  double mac_bits = 0;            // products of a sample, each times the bits of both its factors
  std::optional<double> latency;  // seconds for a sample, where it was measured

  double value(CostKind kind) const;
};

/// Costs that follow from the assignment alone. Latency is measured; where it is asked for beforehand, the
/// number of bits that are multiplied stands in for it.
class CostModel {
 public:
  CostModel(const Graph& network, const SearchSpace& space);

  Costs costs(const Assignment& assignment) const;
  double value(const Assignment& assignment, CostKind kind) const;
  /// The same as whole numbers that add up over the nodes: what the choices of one node add where they take
  /// these formats. `choices` are one or two, of the same node.
  int64_t node_cost(CostKind kind, const std::vector<size_t>& choices, const std::vector<int>& formats) const;

 private:
  double element_bits(size_t choice, int format) const;

  const SearchSpace& space_;
  int64_t other_bits_ = 0;  // of parameters without a choice
  int64_t weight_values_ = 0;
  std::vector<double> products_;  // of each choice's node, for a sample
};

}  // namespace detent

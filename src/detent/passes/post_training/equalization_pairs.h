#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/graph/graph.h"

namespace detent {

/// A value that only weighted sums read, and the node whose channels it has: between the two, nothing but
/// operators f with f(s x) = s f(x) for s > 0. Channels that the producer multiplies by s, the sinks may
/// divide by s.
struct EqualizationPair {
  std::string producer;
  std::vector<std::string> sinks;
  int64_t channels = 0;
  int64_t features = 1;  // adjacent inputs of each sink that a channel becomes: more than 1 after a flatten
};

struct EqualizationPairs {
  std::vector<EqualizationPair> pairs;  // in execution order of the producers
  std::vector<std::string>
      obstacles;  // "<value>: <reason>" for each value that weighted sums read and that is in no pair
};

/// All pairs of the graph whose producer `may_produce`, except quantized nodes.
EqualizationPairs find_equalization_pairs(const Graph& graph,
                                          const std::function<bool(const Node&)>& may_produce);

/// For each channel of the pair, the largest magnitude of the sinks' weights that it is multiplied with.
std::vector<double> sink_ranges(const Graph& graph, const EqualizationPair& pair);

/// The factor for a channel: sink^(1 - alpha) / source^alpha for the ranges (largest magnitudes) of the
/// sinks' weights and of the source; 1 where one of them is next to nothing.
double equalizing_factor(double source_range, double sink_range, double alpha);

/// Multiplies the producer's channels (weight and bias) and divides the sinks' weights by `factors`, in
/// double, rounded once. A norm without weight gets one.
void move_scale(Graph& graph, const EqualizationPair& pair, const std::vector<double>& factors);

}  // namespace detent

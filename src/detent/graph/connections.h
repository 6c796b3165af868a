#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/graph/graph.h"

namespace detent {

// A weight of 0 is no connection: in a sparse layer each output is a function of few inputs (LogicNets,
// Umuroglu et al. 2020, arXiv:2004.03021).

/// Nonzero weights of a layer by output.
class Connections {
 public:
  struct Connection {
    int64_t index;  // of the output's weights, in row-major order
    float weight;
  };

  /// `weight` [outputs, ...]
  explicit Connections(const Tensor& weight);

  int64_t outputs() const { return static_cast<int64_t>(ends_.size()); }
  std::span<const Connection> of(int64_t output) const {
    const auto at = static_cast<size_t>(output);
    const size_t begin = at == 0 ? 0 : ends_[at - 1];
    return std::span(all_).subspan(begin, ends_[at] - begin);
  }
  int64_t most() const;
  int64_t total() const { return static_cast<int64_t>(all_.size()); }

  /// bias + sum of weight * value_at(index), added in double in index order and rounded once. Products of
  /// floats are exact in double.
  template <class ValueAt>
  float sum(int64_t output, float bias, ValueAt value_at) const {
    double sum = 0;
    for (const auto& [index, weight] : of(output))
      sum += static_cast<double>(weight) * static_cast<double>(value_at(index));
    return static_cast<float>(sum + static_cast<double>(bias));
  }

 private:
  std::vector<Connection> all_;
  std::vector<size_t> ends_;
};

/// Most connections of an output with ordered sums.
inline constexpr int64_t kMostOrderedConnections = 24;

/// The connections of a layer that inference computes as `Connections::sum` does, so that a truth table has
/// the same bits: outputs have at most kMostOrderedConnections of them, and most weights are 0, or the inputs
/// are rounded and the weights are not. nullopt of other nodes. `weight` is the node's, rounded.
std::optional<Connections> ordered_connections(const Node& layer, const Tensor& weight);

}  // namespace detent

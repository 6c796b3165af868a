#pragma once

#include <vector>

#include "detent/language/network/positions.h"

namespace detent {

/// Addends of attention's scores that depend on distances: a learned table of buckets (T5, Raffel et al.
/// 2020, arXiv:1910.10683; MPNet), or slopes of each head (ALiBi, Press et al. 2022, arXiv:2108.12409).
class ScoreBias {
 public:
  /// Both outlive this.
  ScoreBias(NetworkNodes& net, const TokenPositions& positions)
      : net_(net), config_(net.config()), positions_(positions) {}

  /// Bias by a learned table, [heads, sequence, total].
  NodeInput of_distances(const std::string& target);
  /// Bias by slopes, [heads, sequence, total] or [N, heads, 1, total].
  NodeInput of_slopes();

 private:
  /// The rows of the table of distances, of keys before a query first, by the steps of transformers.
  std::vector<int64_t> distance_rows() const;
  /// The last distance of that table. Where nothing else bounds the sequence, those beyond count as the last.
  int64_t farthest() const;
  /// Row of the table of distances for each query and key.
  NodeInput distance_places();
  /// 2^(-slopes i / heads), [heads, 1, 1].
  std::vector<float> slopes_of_heads() const;
  NodeInput slopes_of_distances();
  NodeInput slopes_of_places();
  NodeInput in_bfloat16(const NodeInput& x);

  NetworkNodes& net_;
  const LanguageConfig& config_;
  const TokenPositions& positions_;
  NodeInput places_;
};

}  // namespace detent

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "detent/language/network/positions.h"

namespace detent {

/// Addends of attention's scores that are products of queries, or of keys, with rows of a table by their
/// distance (DeBERTa, He et al. 2021, arXiv:2006.03654). Sequences are whole: there are as many queries as
/// keys.
class DistanceProducts {
 public:
  /// Both outlive this.
  DistanceProducts(NetworkNodes& net, const TokenPositions& positions)
      : net_(net), config_(net.config()), positions_(positions) {}

  /// The scores [N, heads, sequence, sequence] with products of queries [N, heads, sequence, head_size],
  /// which are scaled, and of keys [N, heads, head_size, sequence].
  NodeInput added(const std::string& target, NodeInput scores, const NodeInput& queries,
                  const NodeInput& keys);

 private:
  void make_rows();
  /// Rows through a layer, [heads, 2 span, head_size].
  NodeInput projected(const std::string& target, const char* name);
  /// Of [N, heads, x, y], elements by their places x y.
  NodeInput picked(const NodeInput& products, const NodeInput& places);

  NetworkNodes& net_;
  const LanguageConfig& config_;
  const TokenPositions& positions_;
  NodeInput rows_;
  NodeInput of_queries_;  // places of the row of each query and key in products of queries, and of keys
  NodeInput of_keys_;
};

/// The row for each distance of a query behind a key, from -d to d, by the steps of transformers. Where
/// nothing else bounds the sequence, distances beyond count as the last.
std::vector<int64_t> rows_by_distance(const LanguageConfig& config);

}  // namespace detent

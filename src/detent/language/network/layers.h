#pragma once

#include <string>
#include <vector>

#include "detent/language/network/distance_products.h"
#include "detent/language/network/score_bias.h"

namespace detent {

/// Attention of all layers of a network: masks, turns and biases are made once. Heads are [N, sequence,
/// heads, head_size] up to where they are attended to.
class Attention {
 public:
  /// Both outlive this.
  Attention(NetworkNodes& net, const TokenPositions& positions);

  /// x [N, sequence, hidden], and so is the result.
  NodeInput layer(int64_t index, const NodeInput& x);

 private:
  /// Keys and values of the tokens so far, and queries that turn.
  struct Heads {
    NodeInput query;
    NodeInput keys;
    NodeInput values;
  };

  NodeInput growing_scale(const TokenPositions& positions);
  Heads heads_of_hidden(const std::string& target, const NodeInput& x, const Turn& turn);
  Heads heads_of_latent(const std::string& target, const NodeInput& x, const Turn& turn);
  NodeInput heads_of(const std::string& target, const NodeInput& x, int64_t heads);
  NodeInput limited(const NodeInput& x);
  NodeInput split_in_heads(const NodeInput& x, int64_t heads);
  NodeInput split_in_heads(const NodeInput& x, int64_t heads, int64_t size);
  NodeInput norm_of_heads(const std::string& target, const NodeInput& x, int64_t heads);
  /// Queries or keys.
  NodeInput normed_heads_of(const std::string& target, const NodeInput& x, int64_t heads);
  /// Queries or keys.
  NodeInput turned_heads(const std::string& target, const NodeInput& x, int64_t heads, const Turn& turn);
  /// Keys as [N, kv_heads, head_size, total], values as [N, kv_heads, total, head_size].
  NodeInput cached(const std::string& target, const NodeInput& x, const std::vector<int64_t>& order);
  /// Heads that share keys lie one after another, so that they are rows of one product.
  NodeInput attended(const std::string& target, const NodeInput& query, const NodeInput& keys,
                     const NodeInput& values, const NodeInput& seen);
  /// A score of each head after those of the keys.
  NodeInput with_sink(const std::string& target, const NodeInput& scores);
  NodeInput latent_row(const std::string& target, const NodeInput& x, int64_t rank);

  NetworkNodes& net_;
  const LanguageConfig& config_;
  ScoreBias score_bias_;
  DistanceProducts distance_products_;
  NodeInput full_visible_;
  NodeInput window_visible_;
  NodeInput bias_;         // of scores, of all layers
  NodeInput query_scale_;  // where it grows
  Turn turn_;
  Turn window_turn_;
};

/// `target` is that of the activation's own parameters.
NodeInput activated(NetworkNodes& net, Activation activation, const std::string& target, const NodeInput& x);

/// The vector of each sequence, x being the last hidden state [N, sequence, hidden].
NodeInput sequence_embedding(NetworkNodes& net, const TokenPositions& positions, const NodeInput& x);

/// Logits of the labels of a head, x being the last hidden state [N, sequence, hidden].
NodeInput labelled(NetworkNodes& net, const TokenPositions& positions, NodeInput x);

/// The convolution of a layer, [N, sequence, hidden].
NodeInput short_convolution(NetworkNodes& net, const TokenPositions& positions, int64_t index,
                            const NodeInput& x);

/// A perceptron of `size` hidden elements, [N, sequence, hidden].
NodeInput perceptron(NetworkNodes& net, const std::string& target, const NodeInput& x, int64_t size,
                     bool bias);

/// The sum of the experts that each token uses, and of the shared one.
NodeInput experts(NetworkNodes& net, const std::string& target, const NodeInput& x);

}  // namespace detent

#pragma once

#include <string>

#include "detent/language/network/nodes.h"

namespace detent {

/// Inputs of the network, the positions of its tokens and which keys a query sees.
class TokenPositions {
 public:
  /// Adds the inputs.
  explicit TokenPositions(NetworkNodes& net);

  const NodeInput& tokens() const { return tokens_; }
  const NodeInput& types() const { return types_; }
  const NodeInput& mask() const { return mask_; }
  /// How many tokens there are, the past ones included.
  const NodeInput& total() const { return total_; }
  /// How many tokens there are before the queries.
  const NodeInput& past() const { return past_; }
  /// Positions of queries, [sequence], and of keys, [total].
  const NodeInput& queries() const { return queries_; }
  const NodeInput& keys() const { return keys_; }
  /// Positions of queries as float32, [sequence, 1, 1].
  NodeInput float_queries() const;

  /// Rows of the table of learned positions, [N, sequence] or [sequence].
  NodeInput rows() const;
  /// 1 for tokens of the mask and 0 for others, [N, sequence, 1].
  NodeInput seen() const;
  /// The same for the queries alone, where there are more tokens.
  NodeInput seen_queries() const;
  /// Whether each query may see each key, [N, 1, 1 or sequence, total].
  NodeInput visible(bool in_window) const;

 private:
  void add_inputs();

  NetworkNodes& net_;
  const LanguageConfig& config_;
  NodeInput tokens_;
  NodeInput mask_;
  NodeInput types_;
  NodeInput total_;
  NodeInput past_;
  NodeInput queries_;
  NodeInput keys_;
};

/// Cosines and sines [sequence, 1, 2 * size] by which elements of heads are multiplied; those of sines have
/// the sign of the part.
struct Turn {
  int64_t size = 0;  // elements that turn
  NodeInput cosine;
  NodeInput sine;
};

/// `name` is that of the constant frequencies. Nothing turns where there are none.
Turn turn_of(NetworkNodes& net, const TokenPositions& positions, const Rotary& rotary,
             const std::string& name);

/// The first of two parts of the last dimension.
NodeInput split_at(NetworkNodes& net, const NodeInput& x, int64_t first, int64_t size);

/// x cos + (-x2, x1) sin of the elements that turn, of heads of `size`.
NodeInput turned(NetworkNodes& net, const NodeInput& x, const Turn& turn, int64_t size);

}  // namespace detent

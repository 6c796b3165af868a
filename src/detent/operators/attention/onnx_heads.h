#pragma once

#include "detent/onnx/node_import.h"

namespace detent {

// Attention of several domains. Queries, keys and values are [batch, heads, sequence, size].

inline constexpr int64_t kHeadAxis = 1;
inline constexpr int64_t kSequenceAxis = 2;

/// [batch, sequence, heads * size] as [batch, heads, sequence, size].
NodeInput split_heads(NodeImport& node, NodeInput x, int64_t heads);
/// The reverse.
NodeInput join_heads(NodeImport& node, NodeInput x);
/// [batch, sequence, heads, size] as [batch, heads, sequence, size], and the reverse.
NodeInput exchange_heads(NodeImport& node, NodeInput x);

/// Refuses the node where the size is open.
int64_t known_size(const NodeImport& node, size_t input, int64_t dim);
/// Throws Error unless there is a whole number of heads of queries for each of keys, and not too many.
void expect_heads(int64_t of_queries, int64_t of_keys);
/// Throws Error unless so many columns are a whole number of heads.
int64_t size_of_heads(int64_t columns, int64_t heads);

/// Each head of keys or values as often as there are heads of queries for it.
NodeInput repeated_heads(NodeImport& node, const NodeInput& x, int64_t of_queries, int64_t of_keys);
/// Part of the last dimension.
NodeInput sliced_last(NodeImport& node, const NodeInput& x, int64_t begin, int64_t end, int64_t step = 1);
/// Places along the sequence of queries or keys, from 0 on.
NodeInput places_of(NodeImport& node, const NodeInput& x);

/// scale Q K^T
NodeInput scaled_scores(NodeImport& node, const NodeInput& query, const NodeInput& key, double scale);
/// cap tanh(x / cap)
NodeInput soft_capped(NodeImport& node, const NodeInput& x, double cap);

/// How pairs of elements of each head turn: halves of the first `count`, or neighbours, by angles whose
/// cosines and sines are [batch, 1, sequence, count / 2].
struct Turning {
  int64_t count = 0;
  bool neighbours = false;
  NodeInput cosine;
  NodeInput sine;
};

/// So many of the `size` elements of a head: all where `given` is 0. Throws Error unless they are pairs.
int64_t turned_count(int64_t given, int64_t size);
NodeInput turned(NodeImport& node, const NodeInput& x, int64_t size, const Turning& turning);

}  // namespace detent

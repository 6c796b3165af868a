#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "detent/graph/graph.h"
#include "detent/graph/operators.h"

namespace detent {

/// Nodes that compute softmax(cap tanh(query keys / cap)), of what is seen, times values: in ONNX one
/// operator.
struct AttentionPattern {
  NodeInput query;                 // [N, heads, sequence, size], scaled
  NodeInput keys;                  // [N, heads of keys, size, total]
  NodeInput values;                // [N, heads of keys, total, size]
  NodeInput seen;                  // [N, 1, sequence or 1, total]
  double unseen = 0;               // the score of what is not
  double cap = 0;                  // 0: none
  std::vector<std::string> inner;  // the nodes before the last one, whose values nothing else reads
};

/// By the node that gives the result, [N, heads, sequence, size]. Operands that are rounded, and values that
/// something else reads, leave a part as it is.
std::unordered_map<std::string, AttentionPattern> find_attention(const Graph& graph, const ValueTypes& types);

}  // namespace detent

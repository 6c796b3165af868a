#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "detent/graph/element_movement.h"
#include "detent/graph/graph.h"
#include "detent/inference/flow.h"
#include "detent/language/cached_tensor.h"
#include "detent/language/decoder.h"

namespace detent {

/// A move of elements for inputs of the shapes and types of the last time: the tokens of a text lead to the
/// same again and again, and shape inference takes longer than moving.
class KnownMove {
 public:
  /// The node's results; nullopt where its inputs are others than those that were noted.
  std::optional<std::vector<Flow>> results(const std::vector<Flow>& inputs) const;
  /// Keeps the reference's results. Notes nothing of nodes that fill up, and of indices among inputs.
  void note(const Node& node, const std::vector<Flow>& inputs, const std::vector<Flow>& results);

 private:
  struct Value {
    Shape shape;
    std::optional<CodeType> type;
  };
  struct Result {
    Value value;
    std::vector<StridedCopy> copies;  // none of a view
  };
  bool is_known(const std::vector<Flow>& inputs) const;

  std::vector<Value> inputs_;  // tensors, in front of constants
  std::vector<Result> results_;
};

struct SequenceCache::Contents {
  int64_t size = 0;
  std::vector<CachedTensor> tensors;  // in the order of the cache nodes
  std::vector<KnownMove> moves;       // by step
};

}  // namespace detent

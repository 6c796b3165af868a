#pragma once

#include <cstdint>
#include <vector>

#include "detent/graph/element_movement.h"

namespace detent {

/// Products of matrices [..., m, k] and [..., k, n] whose leading dimensions broadcast.
struct MatrixBatch {
  std::vector<int64_t> a;       // where the left matrix of each product begins
  std::vector<int64_t> b;       // which of the right ones it takes, an index of ...
  std::vector<int64_t> packed;  // ... where each of them begins

  MatrixBatch(const StridedView& left, const StridedView& right);

  /// Whether the left matrices are those of a value of this shape in rows, each once.
  bool takes_each_of(const StridedView& left, const Shape& value) const;

  /// The matrices of a view: its dimensions before the last two.
  static StridedView batch_of(const StridedView& view);
};

}  // namespace detent

#pragma once

#include <algorithm>
#include <cstdint>

#include "detent/engine/step.h"

namespace detent {

/// Calls `body(n, y)` for each row of a place, several rows at once on threads.
template <class Body>
void for_each_row(const Place& place, RunState& state, const Body& body) {
  constexpr int64_t kTaskBytes = 16 << 10;
  const int64_t rows = place.images() * place.height();
  const int64_t row_bytes = std::max<int64_t>(place.row() * place.element_bytes(), 1);
  const int64_t at_once = std::max<int64_t>(kTaskBytes / row_bytes, 1);
  ThreadPool::shared().run((rows + at_once - 1) / at_once, state.threads, [&](int64_t task) {
    const int64_t end = std::min(rows, (task + 1) * at_once);
    for (int64_t row = task * at_once; row < end; ++row) body(row / place.height(), row % place.height());
  });
}

}  // namespace detent

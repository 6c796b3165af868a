#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "detent/core/strided_view.h"
#include "detent/core/tensor.h"

namespace detent {

/// The elements of a row-major result beside those of `Count` tensors that broadcast to it, line by line:
/// within one those of a tensor are adjacent, or one and the same. Nothing is copied.
template <size_t Count>
class BroadcastLines {
 public:
  using Places = std::array<int64_t, Count>;

  BroadcastLines(const Shape& shape, const std::array<Shape, Count>& tensors) {
    std::array<StridedView, Count> views;
    for (size_t i = 0; i < Count; ++i) views[i] = StridedView::broadcast(tensors[i], shape);
    for (size_t d = shape.size(); d-- > 0;) {
      if (shape[d] == 1) continue;
      Loop loop{shape[d], {}};
      for (size_t i = 0; i < Count; ++i) loop.steps[i] = views[i].strides[d];
      add(loop);
    }
  }

  /// Step within a line: 1 or 0.
  const Places& steps() const { return line_.steps; }

  /// Calls `visit(first, places, count)` for the parts of lines that elements [begin, end) are; `places` are
  /// those of the tensors' elements beside element `first`.
  template <class Visit>
  void run(int64_t begin, int64_t end, const Visit& visit) const {
    if (begin >= end) return;
    int64_t within = begin % line_.count;
    std::vector<int64_t> at;  // of the outer loops
    Places line = places_of(begin / line_.count, at);
    for (int64_t first = begin; first < end; within = 0) {
      const int64_t count = std::min(end - first, line_.count - within);
      Places places = line;
      for (size_t i = 0; i < Count; ++i) places[i] += within * line_.steps[i];
      visit(first, places, count);
      first += count;
      go_on(line, at);
    }
  }

 private:
  struct Loop {
    int64_t count;
    Places steps;
  };

  /// Around those there are, or one with the outermost where that goes on so.
  void add(const Loop& next) {
    const bool is_first = outer_.empty() && line_.count == 1;
    Loop& outermost = outer_.empty() ? line_ : outer_.back();
    bool goes_on = true;
    for (size_t i = 0; i < Count; ++i) goes_on &= next.steps[i] == outermost.steps[i] * outermost.count;
    if (is_first) {
      line_ = next;
    } else if (goes_on) {
      outermost.count *= next.count;
    } else {
      outer_.push_back(next);
    }
  }

  Places places_of(int64_t line, std::vector<int64_t>& at) const {
    Places places{};
    for (const Loop& loop : outer_) {
      at.push_back(line % loop.count);
      for (size_t i = 0; i < Count; ++i) places[i] += at.back() * loop.steps[i];
      line /= loop.count;
    }
    return places;
  }

  /// To the next line, without divisions: lines may be as short as a few elements.
  void go_on(Places& places, std::vector<int64_t>& at) const {
    for (size_t d = 0; d < outer_.size(); ++d) {
      const Loop& loop = outer_[d];
      for (size_t i = 0; i < Count; ++i) places[i] += loop.steps[i];
      if (++at[d] < loop.count) return;
      for (size_t i = 0; i < Count; ++i) places[i] -= loop.count * loop.steps[i];
      at[d] = 0;
    }
  }

  Loop line_{1, {}};
  std::vector<Loop> outer_;  // the innermost first
};

}  // namespace detent

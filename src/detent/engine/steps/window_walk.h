#pragma once

#include <algorithm>
#include <cstdint>

#include "detent/engine/packed_sums.h"
#include "detent/engine/place.h"
#include "detent/engine/transposed_phases.h"

namespace detent {

/// The windows of a layer, in the order of the results that it computes.
class WindowWalk {
 public:
  WindowWalk() = default;
  WindowWalk(const WindowShape& window, const ResultGrid& grid, const Place& out)
      : window_(window),
        grid_(grid),
        planes_(grid.planes(out)),
        rows_(grid.rows(out)),
        columns_(grid.columns(out)),
        count_(out.images() / out.depth() * planes_ * rows_ * columns_) {}

  /// Windows of all samples.
  int64_t count() const { return count_; }
  /// Results of a sample in each dimension.
  int64_t planes() const { return planes_; }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  /// Positions of the input from a window to the next in its row ...
  int64_t position_step() const { return window_.stride_x; }
  /// ... and of the result.
  int64_t result_step() const { return grid_.step_x; }

  /// Calls `visit(begin, end, position, result)` for windows [first + begin, first + end) of a row, of
  /// `count`: the first of them begins at `position` of the input, its border counted, and its result is the
  /// element `result` of the output.
  template <class Visit>
  void for_each_row(const Place& in, const Place& out, int64_t first, int64_t count,
                    const Visit& visit) const {
    const WindowShape& w = window_;
    int64_t x = first % columns_;
    int64_t y = first / columns_ % rows_;
    int64_t plane = first / columns_ / rows_;
    for (int64_t i = 0; i < count;) {
      const int64_t end = std::min(count, i + columns_ - x);
      const int64_t n = plane / planes_;
      const int64_t z = plane % planes_;
      const int64_t position =
          in.at(n, z * w.stride_z - w.padding_z, y * w.stride_y - w.padding_y, x * w.stride_x - w.padding_x) /
          in.pitch();
      const int64_t result = out.at(n, grid_.first_z + z * grid_.step_z, grid_.first_y + y * grid_.step_y,
                                    grid_.first_x + x * grid_.step_x);
      visit(i, end, position, result);
      i = end;
      x = 0;
      if (++y < rows_) continue;
      y = 0;
      ++plane;
    }
  }

 private:
  WindowShape window_;
  ResultGrid grid_;
  int64_t planes_ = 1, rows_ = 1, columns_ = 1;  // of results, of a sample
  int64_t count_ = 0;
};

}  // namespace detent

#pragma once

#include <cstdint>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/graph/graph.h"

namespace detent {

/// What the windows of a convolution read, as a matrix with a column for each window of a sample (im2col).
class WindowColumns {
 public:
  /// `node` is a convolution that is not transposed, of `input` [N, C, ...] to `output` [N, C, ...].
  WindowColumns(const Node& node, const Shape& input, const Shape& output);

  /// Positions of a window.
  int64_t taps() const { return taps_; }
  /// Windows of a sample.
  int64_t windows() const { return windows_; }
  /// to[i] is what position `tap` of window `first + i` reads of the codes of a channel, less `zero_point`; 0
  /// in the padding.
  void read(const int32_t* channel, int64_t tap, int64_t first, int64_t count, int32_t zero_point,
            int32_t* to) const;

 private:
  int64_t taps_;
  int64_t windows_;
  std::vector<int64_t> places_;  // [tap][window], -1 in the padding
};

}  // namespace detent

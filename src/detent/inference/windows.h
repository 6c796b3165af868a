#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/graph/connections.h"
#include "detent/graph/graph.h"
#include "detent/inference/node_form.h"

namespace detent {

/// A dimension of a convolution's windows; of size 1 if absent.
struct WindowDimension {
  int64_t size = 1;   // of the input
  int64_t count = 1;  // of windows
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t dilation = 1;

  /// Position in the input; outside of it: padding.
  int64_t place(int64_t window, int64_t tap) const { return window * stride - padding + tap * dilation; }
};

/// Values that the windows of a convolution read, as a matrix with a column for each window of a sample
/// (im2col).
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

/// The positions begin, begin + step, ... below end of one dimension that a pooling window covers.
struct PoolingWindow {
  int64_t begin;
  int64_t end;
  int64_t step;
  int64_t counted;  // positions that a mean divides by
};

/// For each spatial dimension of `input`, [N, C, ...], the window of each output position. `node` is a
/// pooling.
std::vector<std::vector<PoolingWindow>> pooling_windows(const Node& node, const Shape& input);

/// int32 codes to int32 codes. Throws Error where a window's sum could exceed 32 bits.
Tensor average_pool(const AverageForm& form, const Node& node, const Tensor& codes);
/// Means of float32 values: summed in double, in row-major order of the window, divided and then rounded
/// once.
Tensor average_pool(const Node& node, const Tensor& values);
/// The largest element of each window, NaN where one is among them; of int32 codes or float32 values.
Tensor max_pool(const Node& node, const Tensor& input);

/// The result of a linear layer, conv1d or conv2d: `Connections::sum` of each output at each position,
/// whatever the size of the batch and the number of threads. No gradients.
Tensor sparse_sums(const Node& layer, const Connections& connections, const Tensor& values,
                   const std::optional<Tensor>& bias);

}  // namespace detent

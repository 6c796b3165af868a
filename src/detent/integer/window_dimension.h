#pragma once

#include <cstdint>

namespace detent {

/// A dimension of a convolution's windows; where there is none, one of size 1.
struct WindowDimension {
  int64_t size = 1;   // of the input
  int64_t count = 1;  // of windows
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t dilation = 1;

  /// Place in the input; outside of it in the padding.
  int64_t place(int64_t window, int64_t tap) const { return window * stride - padding + tap * dilation; }
};

}  // namespace detent

#include "detent/execution/max_pooling.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "detent/core/parallel.h"
#include "detent/graph/operators.h"
#include "detent/integer/pooling.h"

namespace detent {
namespace {

/// The first of two that are equal, which tells 0 from -0; the last NaN, where there is one.
float larger(float largest, float value) {
  const bool replaces = value > largest || value != value;  // NOLINT(misc-redundant-expression)
  return replaces ? value : largest;
}

template <int64_t kStride>
void take_larger(const float* from, int64_t count, float* largest) {
  for (int64_t i = 0; i < count; ++i) largest[i] = larger(largest[i], from[i * kStride]);
}

/// largest[i] = larger(largest[i], from[i * stride]); loops of a constant stride become vectors.
void take_larger(const float* from, int64_t stride, int64_t count, float* largest) {
  if (stride == 1) return take_larger<1>(from, count, largest);
  if (stride == 2) return take_larger<2>(from, count, largest);
  for (int64_t i = 0; i < count; ++i) largest[i] = larger(largest[i], from[i * stride]);
}

/// One column of the window: the elements of a row that it meets at the places [begin, end) of the result.
struct Column {
  int64_t first_element;
  int64_t begin;
  int64_t end;
};

class PoolOfPlanes {
 public:
  PoolOfPlanes(const Node& node, const at::Tensor& x) : width_(x.size(3)), stride_(pool_stride(node, 2)[1]) {
    auto windows = pooling_windows(node, x.sizes().vec());
    rows_ = std::move(windows[0]);
    results_ = std::ssize(windows[1]);
    const int64_t kernel = integers_attribute(node, "kernel_size", 2)[1];
    const int64_t dilation = integers_attribute(node, "dilation", 2)[1];
    const int64_t padding = integers_attribute(node, "padding", 2)[1];
    for (int64_t k = 0; k < kernel; ++k) {
      const int64_t offset = k * dilation - padding;  // from where the window of the first result begins
      const int64_t begin = offset < 0 ? (-offset + stride_ - 1) / stride_ : 0;
      const int64_t end = offset < width_ ? std::min((width_ - 1 - offset) / stride_ + 1, results_) : 0;
      if (begin < end) columns_.push_back({begin * stride_ + offset, begin, end});
    }
  }

  int64_t height() const { return std::ssize(rows_); }
  int64_t width() const { return results_; }

  /// In the order of a window's elements, a row of the result at a time: one that stays in the nearest cache.
  void run(const float* plane, float* result) const {
    for (const PoolingWindow& window : rows_) {
      std::fill_n(result, results_, -std::numeric_limits<float>::infinity());
      for (int64_t row = window.begin; row < window.end; row += window.step) {
        for (const Column& column : columns_) {
          take_larger(plane + row * width_ + column.first_element, stride_, column.end - column.begin,
                      result + column.begin);
        }
      }
      result += results_;
    }
  }

 private:
  int64_t width_;
  int64_t stride_;
  int64_t results_;  // a row
  std::vector<PoolingWindow> rows_;
  std::vector<Column> columns_;
};

}  // namespace

bool is_plain_image(const at::Tensor& x) {
  return x.scalar_type() == at::kFloat && x.dim() == 4 && x.is_contiguous();
}

at::Tensor max_pool2d(const Node& node, const at::Tensor& x) {
  constexpr int64_t kGrain = 1 << 16;  // elements
  const PoolOfPlanes pool(node, x);
  at::Tensor result = at::empty({x.size(0), x.size(1), pool.height(), pool.width()}, x.options());
  const int64_t plane = x.size(2) * x.size(3);
  const auto* const from = x.data_ptr<float>();
  auto* const to = result.data_ptr<float>();
  parallel_for(x.size(0) * x.size(1), std::max<int64_t>(1, kGrain / plane), [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) pool.run(from + p * plane, to + p * pool.height() * pool.width());
  });
  return result;
}

}  // namespace detent

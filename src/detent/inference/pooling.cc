#include "detent/inference/windows.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/graph/operators.h"

namespace detent {
namespace {

using WindowsOfDims = std::vector<std::vector<PoolingWindow>>;

std::vector<PoolingWindow> adaptive_windows(int64_t size, int64_t count) {
  std::vector<PoolingWindow> windows;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t begin = i * size / count;
    const int64_t end = ((i + 1) * size + count - 1) / count;
    windows.push_back({begin, end, 1, end - begin});
  }
  return windows;
}

struct Window {
  int64_t kernel, stride, before, after, dilation;
};

std::vector<PoolingWindow> regular_windows(const Window& w, int64_t size, int64_t count, bool count_padding) {
  std::vector<PoolingWindow> windows;
  const auto elements = [&](int64_t begin, int64_t end) {
    return end > begin ? (end - begin - 1) / w.dilation + 1 : 0;
  };
  for (int64_t i = 0; i < count; ++i) {
    const int64_t start = i * w.stride - w.before;
    const int64_t padded_end = std::min(start + (w.kernel - 1) * w.dilation + 1, size + w.after);
    const int64_t skipped = start < 0 ? (-start + w.dilation - 1) / w.dilation : 0;
    const int64_t begin = start + skipped * w.dilation;
    const int64_t end = std::min(padded_end, size);
    windows.push_back(
        {begin, end, w.dilation, elements(count_padding ? start : begin, count_padding ? padded_end : end)});
  }
  return windows;
}

/// Where rows of the input's plane begin, of which one row of the result is computed.
struct WindowRows {
  std::vector<int64_t> places;
  int64_t counted;  // rows that a mean divides by
};

/// The input rows of each row of the result, in row-major order: a window of each dimension but the last.
std::vector<WindowRows> rows_of(const WindowsOfDims& windows, const std::vector<int64_t>& strides) {
  std::vector<WindowRows> all = {{{0}, 1}};
  for (size_t d = 0; d + 1 < windows.size(); ++d) {
    std::vector<WindowRows> extended;
    for (const WindowRows& rows : all) {
      for (const PoolingWindow& window : windows[d]) {
        WindowRows& next = extended.emplace_back(WindowRows{{}, rows.counted * window.counted});
        for (const int64_t place : rows.places) {
          for (int64_t i = window.begin; i < window.end; i += window.step)
            next.places.push_back(place + i * strides[d]);
        }
      }
    }
    all = std::move(extended);
  }
  return all;
}

/// The part of a plane that one element of the result is computed of.
struct Region {
  const WindowRows& rows;
  const PoolingWindow& window;  // of each row

  int64_t elements() const {
    if (window.end <= window.begin) return 0;
    return std::ssize(rows.places) * ((window.end - window.begin - 1) / window.step + 1);
  }
  int64_t counted() const { return rows.counted * window.counted; }
  int64_t first() const { return rows.places.front() + window.begin; }
  /// Calls `visit(element)` in row-major order.
  template <class T, class Visit>
  void for_each(const T* plane, Visit visit) const {
    for (const int64_t place : rows.places) {
      for (int64_t i = window.begin; i < window.end; i += window.step) visit(plane[place + i]);
    }
  }
};

/// Calls `reduce(plane, region)` for each element of the result of [N, C, ...].
template <class T, class Reduce>
Tensor pool(const Node& node, const Tensor& input, Reduce reduce) {
  const WindowsOfDims windows = pooling_windows(node, input.shape());
  const Shape spatial(input.shape().begin() + 2, input.shape().end());
  const std::vector<WindowRows> all_rows = rows_of(windows, StridedView::of(spatial).strides);
  Shape shape = {input.dim(0), input.dim(1)};
  for (const auto& dimension : windows) shape.push_back(static_cast<int64_t>(dimension.size()));
  const int64_t per_plane = element_count({shape.begin() + 2, shape.end()});
  Tensor result(input.dtype(), shape);
  const T* from = input.values<T>().data();
  T* to = result.values<T>().data();
  parallel_for(shape[0] * shape[1], 16, [&](int64_t begin, int64_t end) {
    T* out = to + begin * per_plane;
    for (int64_t p = begin; p < end; ++p) {
      const T* plane = from + p * element_count(spatial);
      for (const WindowRows& rows : all_rows) {
        for (const PoolingWindow& window : windows.back()) *out++ = reduce(plane, Region{rows, window});
      }
    }
  });
  return result;
}

/// The last NaN, where there is one.
template <class T>
T larger(T largest, T element) {
  const bool replaces = element > largest || element != element;  // NOLINT(misc-redundant-expression)
  return replaces ? element : largest;
}

template <class T>
Tensor largest_of_windows(const Node& node, const Tensor& input) {
  return pool<T>(node, input, [](const T* plane, const Region& region) {
    T largest = plane[region.first()];
    region.for_each(plane, [&](T element) { largest = larger(largest, element); });
    return largest;
  });
}

}  // namespace

std::vector<std::vector<PoolingWindow>> pooling_windows(const Node& node, const Shape& input) {
  const auto* pooling = trait<Pooling>(node);
  DETENT_CHECK(pooling != nullptr, "windows of {} ({})", node.name, node.op);
  const size_t dims = input.size() - 2;
  std::vector<std::vector<PoolingWindow>> result;
  if (pooling->adaptive) {
    const auto sizes = integers_attribute(node, "output_size", dims);
    for (size_t i = 0; i < dims; ++i) result.push_back(adaptive_windows(input[i + 2], sizes[i]));
    return result;
  }
  const bool averages = pooling->of == Pooling::Of::kMean;
  const auto kernel = integers_attribute(node, "kernel_size", dims);
  const auto stride = pool_stride(node, dims);
  auto padding = integers_attribute(node, "padding", pooling->bordered ? 2 * dims : dims);
  if (!pooling->bordered) padding.insert(padding.end(), padding.begin(), padding.end());
  const bool dilated = !averages || pooling->bordered;
  const auto dilation = dilated ? integers_attribute(node, "dilation", dims) : std::vector<int64_t>(dims, 1);
  const bool count_padding = averages && boolean_attribute(node, "count_include_pad");
  const Operand pooled = find_operator(node.op).infer(node, std::vector<Operand>{Operand{input, Value()}});
  for (size_t i = 0; i < dims; ++i) {
    result.push_back(regular_windows({kernel[i], stride[i], padding[i], padding[i + dims], dilation[i]},
                                     input[i + 2], pooled.shape[i + 2], count_padding));
  }
  return result;
}

Tensor average_pool(const AverageForm& form, const Node& node, const Tensor& codes) {
  const int32_t zero = form.input.zero_point;
  const int64_t largest = std::max(int64_t{form.input.high} - zero, int64_t{zero} - form.input.low);
  return pool<int32_t>(node, codes, [&, zero](const int32_t* plane, const Region& region) {
    const int64_t elements = region.elements();
    if (elements * largest > std::numeric_limits<int32_t>::max()) {
      fail("node \"{}\" ({}): the sum of {} codes could exceed 32 bits", node.name, node.op, elements);
    }
    int32_t sum = 0;
    region.for_each(plane, [&](int32_t code) { sum += code - zero; });
    return form.code(sum, region.counted());
  });
}

Tensor average_pool(const Node& node, const Tensor& values) {
  return pool<float>(node, values, [](const float* plane, const Region& region) {
    double sum = 0;
    region.for_each(plane, [&](float value) { sum += static_cast<double>(value); });
    return static_cast<float>(sum / static_cast<double>(region.counted()));
  });
}

Tensor max_pool(const Node& node, const Tensor& input) {
  return input.dtype() == DType::kFloat32 ? largest_of_windows<float>(node, input)
                                          : largest_of_windows<int32_t>(node, input);
}

}  // namespace detent

#include "detent/integer/pooling.h"

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
  int64_t kernel, stride, padding, dilation;
};

std::vector<PoolingWindow> regular_windows(const Window& w, int64_t size, int64_t count, bool count_padding) {
  std::vector<PoolingWindow> windows;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t start = i * w.stride - w.padding;
    const int64_t padded_end = std::min(start + (w.kernel - 1) * w.dilation + 1, size + w.padding);
    const int64_t skipped = start < 0 ? (-start + w.dilation - 1) / w.dilation : 0;
    const int64_t begin = start + skipped * w.dilation;
    const int64_t end = std::min(padded_end, size);
    windows.push_back({begin, end, w.dilation, count_padding ? padded_end - start : end - begin});
  }
  return windows;
}

/// The part of a plane that one element of the result is computed of: a window of each dimension.
struct Region {
  std::vector<PoolingWindow> windows;
  std::vector<int64_t> strides;  // of the plane's dimensions

  int64_t elements() const {
    int64_t count = 1;
    for (const PoolingWindow& window : windows) count *= (window.end - window.begin - 1) / window.step + 1;
    return count;
  }
  int64_t counted() const {
    int64_t count = 1;
    for (const PoolingWindow& window : windows) count *= window.counted;
    return count;
  }
  int64_t first() const {
    int64_t offset = 0;
    for (size_t d = 0; d < windows.size(); ++d) offset += windows[d].begin * strides[d];
    return offset;
  }
  /// Calls `visit(element)` in row-major order.
  template <class T, class Visit>
  void for_each(const T* plane, Visit& visit, size_t dim = 0) const {
    const auto [begin, end, step, counted] = windows[dim];
    if (dim + 1 == windows.size()) {
      for (int64_t i = begin; i < end; i += step) visit(plane[i]);
      return;
    }
    for (int64_t i = begin; i < end; i += step) for_each(plane + i * strides[dim], visit, dim + 1);
  }
};

/// Calls `visit(region)` for each element of a plane of the result, in row-major order.
template <class Visit>
void for_each_region(const WindowsOfDims& windows, Region& region, Visit& visit, size_t dim = 0) {
  if (dim == windows.size()) {
    visit(std::as_const(region));
    return;
  }
  for (const PoolingWindow& window : windows[dim]) {
    region.windows[dim] = window;
    for_each_region(windows, region, visit, dim + 1);
  }
}

/// Calls `reduce(plane, region)` for each element of the result of [N, C, ...].
template <class T, class Reduce>
Tensor pool(const Node& node, const Tensor& input, Reduce reduce) {
  const WindowsOfDims windows = pooling_windows(node, input.shape());
  const Shape spatial(input.shape().begin() + 2, input.shape().end());
  Shape shape = {input.dim(0), input.dim(1)};
  for (const auto& dimension : windows) shape.push_back(static_cast<int64_t>(dimension.size()));
  const int64_t per_plane = element_count({shape.begin() + 2, shape.end()});
  Tensor result(input.dtype(), shape);
  const T* from = input.values<T>().data();
  T* to = result.values<T>().data();
  parallel_for(shape[0] * shape[1], 16, [&](int64_t begin, int64_t end) {
    Region region{std::vector<PoolingWindow>(windows.size()), StridedView::of(spatial).strides};
    for (int64_t p = begin; p < end; ++p) {
      const T* plane = from + p * element_count(spatial);
      T* out = to + p * per_plane;
      const auto visit = [&](const Region& part) { *out++ = reduce(plane, part); };
      for_each_region(windows, region, visit);
    }
  });
  return result;
}

template <class T>
Tensor largest_of_windows(const Node& node, const Tensor& input) {
  return pool<T>(node, input, [&](const T* plane, const Region& region) {
    T largest = plane[region.first()];
    const auto take = [&](T element) { largest = std::max(largest, element); };
    region.for_each(plane, take);
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
  const auto padding = integers_attribute(node, "padding", dims);
  const auto dilation = averages ? std::vector<int64_t>(dims, 1) : integers_attribute(node, "dilation", dims);
  const bool count_padding = averages && boolean_attribute(node, "count_include_pad");
  const Operand pooled = find_operator(node.op).infer(node, std::vector<Operand>{Operand{input, Value()}});
  for (size_t i = 0; i < dims; ++i) {
    result.push_back(regular_windows({kernel[i], stride[i], padding[i], dilation[i]}, input[i + 2],
                                     pooled.shape[i + 2], count_padding));
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
    const auto add = [&](int32_t code) { sum += code - zero; };
    region.for_each(plane, add);
    return form.code(sum, region.counted());
  });
}

Tensor max_pool(const Node& node, const Tensor& input) {
  return input.dtype() == DType::kFloat32 ? largest_of_windows<float>(node, input)
                                          : largest_of_windows<int32_t>(node, input);
}

}  // namespace detent

#include "detent/integer/pooling.h"

#include <algorithm>
#include <limits>

#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/graph/operators.h"

namespace detent {
namespace {

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

/// [N, C, H, W] as planes of `rows` x `columns`; rows is 1 for [N, C, L].
struct Planes {
  int64_t count, rows, columns;
};

Planes planes_of(const Shape& shape) {
  return {shape[0] * shape[1], shape.size() == 4 ? shape[2] : 1, shape.back()};
}

/// Calls `reduce(plane, row window, column window)` for each element of the result.
template <class T, class Reduce>
Tensor pool(const Node& node, const Tensor& input, Reduce reduce) {
  auto windows = pooling_windows(node, input.shape());
  Shape shape = {input.dim(0), input.dim(1)};
  for (const auto& dimension : windows) shape.push_back(static_cast<int64_t>(dimension.size()));
  if (windows.size() == 1) windows.insert(windows.begin(), {{0, 1, 1, 1}});
  const Planes planes = planes_of(input.shape());
  Tensor result(input.dtype(), std::move(shape));
  const T* from = input.values<T>().data();
  T* to = result.values<T>().data();
  const auto per_plane = static_cast<int64_t>(windows[0].size() * windows[1].size());
  parallel_for(planes.count, 16, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      T* out = to + p * per_plane;
      for (const PoolingWindow& rows : windows[0]) {
        for (const PoolingWindow& columns : windows[1]) {
          *out++ = reduce(from + p * planes.rows * planes.columns, rows, columns);
        }
      }
    }
  });
  return result;
}

template <class T>
Tensor largest_of_windows(const Node& node, const Tensor& input) {
  const int64_t columns = input.shape().back();
  return pool<T>(node, input, [&](const T* plane, const PoolingWindow& h, const PoolingWindow& w) {
    T largest = plane[h.begin * columns + w.begin];
    for (int64_t y = h.begin; y < h.end; y += h.step) {
      for (int64_t x = w.begin; x < w.end; x += w.step) largest = std::max(largest, plane[y * columns + x]);
    }
    return largest;
  });
}

}  // namespace

std::vector<std::vector<PoolingWindow>> pooling_windows(const Node& node, const Shape& input) {
  const size_t dims = input.size() - 2;
  DETENT_CHECK(dims == 1 || dims == 2, "pooling of a tensor of shape {}", shape_text(input));
  std::vector<std::vector<PoolingWindow>> result;
  if (node.op.starts_with("adaptive_")) {
    const auto sizes = integers_attribute(node, "output_size", dims);
    for (size_t i = 0; i < dims; ++i) result.push_back(adaptive_windows(input[i + 2], sizes[i]));
    return result;
  }
  const bool averages = node.op.starts_with("avg_");
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
  const int64_t columns = codes.shape().back();
  return pool<int32_t>(
      node, codes, [&, zero](const int32_t* plane, const PoolingWindow& h, const PoolingWindow& w) {
        const int64_t elements = (h.end - h.begin) * (w.end - w.begin);
        if (elements * largest > std::numeric_limits<int32_t>::max()) {
          fail("node \"{}\" ({}): the sum of {} codes could exceed 32 bits", node.name, node.op, elements);
        }
        int32_t sum = 0;
        for (int64_t y = h.begin; y < h.end; ++y) {
          for (int64_t x = w.begin; x < w.end; ++x) sum += plane[y * columns + x] - zero;
        }
        return form.code(sum, h.counted * w.counted);
      });
}

Tensor max_pool(const Node& node, const Tensor& input) {
  return input.dtype() == DType::kFloat32 ? largest_of_windows<float>(node, input)
                                          : largest_of_windows<int32_t>(node, input);
}

}  // namespace detent

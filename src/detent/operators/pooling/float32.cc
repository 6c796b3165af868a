#include <algorithm>
#include <cmath>

#include "detent/core/element_types.h"
#include "detent/core/parallel.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"
#include "detent/inference/float_node.h"
#include "detent/inference/windows.h"
#include "detent/kernels/functions.h"
#include "detent/kernels/window_places.h"

namespace detent {
namespace {

Tensor pooled(const FloatNode& n) {
  return is_pooling(n.node, Pooling::Of::kMean) ? average_pool(n.node, n.tensor(0))
                                                : max_pool(n.node, n.tensor(0));
}

/// The place in column-major order of one in row-major order.
int64_t column_major(int64_t place, const Shape& sizes) {
  int64_t result = 0;
  for (size_t d = sizes.size(); d-- > 0; place /= sizes[d]) result = result * sizes[d] + place % sizes[d];
  return result;
}

/// The border before each dimension, then that after each.
std::vector<int64_t> borders_of(const FloatNode& n, size_t dims) {
  return integers_attribute(n.node, "padding", 2 * dims);
}

/// The windows of an operator with a border, of a result of this shape.
WindowPlaces windows_of(const FloatNode& n, const Shape& result) {
  const Shape& x = n.tensor(0).shape();
  const size_t dims = result.size() - 2;
  const std::vector<int64_t> borders = borders_of(n, dims);  // no window needs to know those after
  return {{result.begin() + 2, result.end()},
          {x.begin() + 2, x.end()},
          integers_attribute(n.node, "kernel_size", dims),
          pool_stride(n.node, dims),
          {borders.begin(), borders.begin() + static_cast<int64_t>(dims)},
          integers_attribute(n.node, "dilation", dims)};
}

/// visit(first, end) of a few channels at a time: to find what windows cover takes longer than to read it.
template <class Visit>
void for_channels(int64_t channels, Visit visit) {
  constexpr int64_t kAtOnce = 8;
  parallel_for((channels + kAtOnce - 1) / kAtOnce, 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block)
      visit(block * kAtOnce, std::min(channels, (block + 1) * kAtOnce));
  });
}

/// Windows that follow each other in the last dimension, and where the rows begin that they cover: windows
/// of the dimensions before it, in row-major order.
class LargestOfWindows {
 public:
  explicit LargestOfWindows(const WindowPlaces& over)
      : kernel_(over.kernel.back()),
        stride_(over.stride.back()),
        padding_(over.padding.back()),
        dilation_(over.dilation.back()),
        windows_(over.windows.back()),
        places_(over.places.back()) {
    const auto without_last = [](std::vector<int64_t> list) {
      list.pop_back();
      return list;
    };
    const WindowPlaces outer{without_last(over.windows), without_last(over.places),
                             without_last(over.kernel),  without_last(over.stride),
                             without_last(over.padding), without_last(over.dilation)};
    rows_.resize(static_cast<size_t>(element_count(outer.windows)));
    outer.for_each([&](int64_t window, int64_t /*tap*/, int64_t row) {
      rows_[static_cast<size_t>(window)].push_back(row * places_);
    });
    first_ = std::min(windows_, (padding_ + stride_ - 1) / stride_);
    const int64_t fitting = places_ + padding_ - (kernel_ - 1) * dilation_ - 1;
    end_ = std::clamp(fitting < 0 ? 0 : fitting / stride_ + 1, first_, windows_);
  }

  /// The largest elements of a channel's windows, and their places in row-major order.
  void largest(const float* from, float* values, int64_t* places) const {
    Taps taps;
    std::vector<int32_t> tap_of(static_cast<size_t>(end_ - first_));
    for (const std::vector<int64_t>& rows : rows_) {
      for (int64_t x = 0; x < first_; ++x) largest_at(rows, x, from, values, places);
      if (first_ < end_) {
        read_taps(rows, from, taps);
        largest_and_its_rows(taps.elements.data(), std::ssize(taps.elements), end_ - first_, values + first_,
                             tap_of.data());
        for (int64_t x = first_; x < end_; ++x) {
          const auto tap = static_cast<size_t>(tap_of[static_cast<size_t>(x - first_)]);
          places[x] = (x - first_) * stride_ + taps.places[tap];
        }
      }
      for (int64_t x = end_; x < windows_; ++x) largest_at(rows, x, from, values, places);
      values += windows_;
      places += windows_;
    }
  }

 private:
  int64_t place_of(int64_t window, int64_t tap) const {
    return window * stride_ - padding_ + tap * dilation_;
  }

  /// Elements of the windows [first_, end_), by tap.
  struct Taps {
    std::vector<float> copies;
    std::vector<const float*> elements;  // of each tap side by side
    std::vector<int64_t> places;         // of each tap of the first window
  };

  void read_taps(const std::vector<int64_t>& rows, const float* from, Taps& taps) const {
    const int64_t count = end_ - first_;
    if (stride_ > 1) taps.copies.resize(rows.size() * static_cast<size_t>(kernel_ * count));
    taps.elements.clear();
    taps.places.clear();
    for (const int64_t row : rows) {
      for (int64_t tap = 0; tap < kernel_; ++tap) {
        taps.places.push_back(row + place_of(first_, tap));
        const float* const first = from + taps.places.back();
        if (stride_ == 1) {
          taps.elements.push_back(first);
          continue;
        }
        float* const to = taps.copies.data() + std::ssize(taps.elements) * count;
        if (stride_ == 2) {
          for (int64_t i = 0; i < count; ++i) to[i] = first[2 * i];
        } else {
          for (int64_t i = 0; i < count; ++i) to[i] = first[i * stride_];
        }
        taps.elements.push_back(to);
      }
    }
  }

  /// The same of one window, of which a part may lie in the border.
  void largest_at(const std::vector<int64_t>& rows, int64_t window, const float* from, float* values,
                  int64_t* places) const {
    places[window] = -1;
    for (const int64_t row : rows) {
      for (int64_t tap = 0; tap < kernel_; ++tap) {
        const int64_t place = place_of(window, tap);
        if (place < 0 || place >= places_) continue;
        const float value = from[row + place];
        if (places[window] >= 0 && !(value > values[window] || std::isnan(value))) continue;
        values[window] = value;
        places[window] = row + place;
      }
    }
  }

  int64_t kernel_;
  int64_t stride_;
  int64_t padding_;
  int64_t dilation_;
  int64_t windows_;
  int64_t places_;
  // Windows that lie within the row.
  int64_t first_;
  int64_t end_;
  std::vector<std::vector<int64_t>> rows_;
};

/// The largest element of each window and its place. A window's elements are visited in row-major order; of
/// equal ones the first is taken, of NaNs the last.
std::vector<Tensor> pooled_with_places(const FloatNode& n) {
  const Tensor& x = n.tensor(0);
  const Shape shape = n.inferred().front().shape;
  const WindowPlaces over = windows_of(n, shape);
  const LargestOfWindows rows(over);
  const bool by_columns = boolean_attribute(n.node, "column_major");
  const int64_t windows = element_count(over.windows);
  const int64_t positions = element_count(over.places);
  Tensor values = unfilled_tensor(DType::kFloat32, shape);
  Tensor places = unfilled_tensor(DType::kInt64, shape);
  const float* const from = words_of<float>(x);
  float* const largest = words_of<float>(values);
  int64_t* const place_of = words_of<int64_t>(places);
  parallel_for(shape[0] * shape[1], 1, [&](int64_t begin, int64_t end) {
    for (int64_t channel = begin; channel < end; ++channel) {
      int64_t* const to = place_of + channel * windows;
      rows.largest(from + channel * positions, largest + channel * windows, to);
      for (int64_t i = 0; i < windows; ++i)
        to[i] = (by_columns ? column_major(to[i], over.places) : to[i]) + channel * positions;
    }
  });
  return {values, places};
}

/// The sum of each window's elements, in double and in row-major order.
Tensor window_sums(const Tensor& x, const WindowPlaces& over, const Shape& shape) {
  const int64_t windows = element_count(over.windows);
  const int64_t positions = element_count(over.places);
  Tensor result(DType::kFloat32, shape);
  const float* const from = words_of<float>(x);
  for_channels(shape[0] * shape[1], [&](int64_t first, int64_t end) {
    std::vector<double> sums(static_cast<size_t>((end - first) * windows));
    over.for_each([&](int64_t window, int64_t /*tap*/, int64_t place) {
      for (int64_t channel = first; channel < end; ++channel) {
        sums[static_cast<size_t>((channel - first) * windows + window)] +=
            static_cast<double>(from[channel * positions + place]);
      }
    });
    std::ranges::transform(sums, words_of<float>(result) + first * windows,
                           [](double sum) { return static_cast<float>(sum); });
  });
  return result;
}

/// Each element to the power of `exponent`.
Tensor powered(Tensor values, float exponent) {
  if (exponent != 1) apply_power(values.values<float>(), std::span(&exponent, 1), values.values<float>());
  return values;
}

Tensor norms(const FloatNode& n) {
  const Shape shape = n.inferred().front().shape;
  const auto p = static_cast<float>(integer_attribute(n.node, "p"));
  Tensor magnitudes = n.tensor(0).clone();
  for (float& x : magnitudes.values<float>()) x = std::fabs(x);
  return powered(window_sums(powered(std::move(magnitudes), p), windows_of(n, shape), shape), 1 / p);
}

}  // namespace

FloatOperators float_pooling_operators() {
  FloatOperators operators = {
      {.op = "max_pool_with_places", .compute = nullptr, .compute_all = pooled_with_places},
      {"lp_pool", norms}};
  for (const OperatorSchema& schema : all_operators()) {
    const auto* const pooling = std::get_if<Pooling>(&schema.trait);
    if (pooling == nullptr) continue;
    operators.push_back({schema.name, pooled, /*is_exact=*/pooling->of == Pooling::Of::kLargest});
  }
  return operators;
}

}  // namespace detent

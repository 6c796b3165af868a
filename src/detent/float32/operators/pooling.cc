#include <cmath>

#include "detent/float32/float_node.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"
#include "detent/integer/pooling.h"

namespace detent {
namespace {

Tensor pooled(const FloatNode& n) {
  return is_pooling(n.node, Pooling::Of::kMean) ? average_pool(n.node, n.tensor(0))
                                                : max_pool(n.node, n.tensor(0));
}

/// The largest element of each window and its place. A window's elements are visited in row-major order; of
/// equal ones the first is taken, of NaNs the last.
class PoolWithPlaces {
 public:
  explicit PoolWithPlaces(const FloatNode& n)
      : x_(n.tensor(0)),
        sizes_(x_.shape().begin() + 2, x_.shape().end()),
        kernel_(integers_attribute(n.node, "kernel_size", sizes_.size())),
        stride_(pool_stride(n.node, sizes_.size())),
        padding_(integers_attribute(n.node, "padding", 2 * sizes_.size())),
        dilation_(integers_attribute(n.node, "dilation", sizes_.size())),
        column_major_(boolean_attribute(n.node, "column_major")),
        positions_(element_count(sizes_)) {}

  std::vector<Tensor> results(const Shape& shape) const {
    Tensor values(DType::kFloat32, shape);
    Tensor places(DType::kInt64, shape);
    const Shape windows(shape.begin() + 2, shape.end());
    const int64_t count = element_count(windows);
    for (int64_t i = 0; i < values.numel(); ++i) {
      const int64_t channel = i / count;
      const Best best = best_of(channel, window_at(i % count, windows));
      values.values<float>()[static_cast<size_t>(i)] = best.value;
      places.values<int64_t>()[static_cast<size_t>(i)] = channel * positions_ + best.place;
    }
    return {values, places};
  }

 private:
  struct Best {
    float value = -HUGE_VALF;
    int64_t place = -1;
  };

  /// Where each dimension of the window begins; before 0 in the border.
  std::vector<int64_t> window_at(int64_t index, const Shape& windows) const {
    std::vector<int64_t> start(windows.size());
    for (size_t d = windows.size(); d-- > 0; index /= windows[d])
      start[d] = index % windows[d] * stride_[d] - padding_[d];
    return start;
  }

  Best best_of(int64_t channel, const std::vector<int64_t>& start) const {
    const float* const from = x_.values<float>().data() + channel * positions_;
    Best best;
    for (int64_t tap = 0; tap < element_count(kernel_); ++tap) {
      int64_t rest = tap;
      std::vector<int64_t> position(start);
      bool is_inside = true;
      for (size_t d = start.size(); d-- > 0; rest /= kernel_[d]) {
        position[d] += rest % kernel_[d] * dilation_[d];
        is_inside = is_inside && position[d] >= 0 && position[d] < sizes_[d];
      }
      if (!is_inside) continue;
      const float value = from[place_of(position, false)];
      if (best.place < 0 || value > best.value || std::isnan(value))
        best = {value, place_of(position, column_major_)};
    }
    return best;
  }

  int64_t place_of(const std::vector<int64_t>& position, bool column_major) const {
    int64_t place = 0;
    for (size_t i = 0; i < position.size(); ++i) {
      const size_t d = column_major ? position.size() - 1 - i : i;
      place = place * sizes_[d] + position[d];
    }
    return place;
  }

  Tensor x_;
  Shape sizes_;
  std::vector<int64_t> kernel_;
  std::vector<int64_t> stride_;
  std::vector<int64_t> padding_;
  std::vector<int64_t> dilation_;
  bool column_major_;
  int64_t positions_;  // of a channel
};

std::vector<Tensor> pooled_with_places(const FloatNode& n) {
  return PoolWithPlaces(n).results(n.inferred().front().shape);
}

}  // namespace

FloatOperators float_pooling_operators() {
  FloatOperators operators = {
      {.op = "max_pool_with_places", .compute = nullptr, .compute_all = pooled_with_places}};
  for (const OperatorSchema& schema : all_operators()) {
    const auto* const pooling = std::get_if<Pooling>(&schema.trait);
    if (pooling == nullptr) continue;
    operators.push_back({schema.name, pooled, /*is_exact=*/pooling->of == Pooling::Of::kLargest});
  }
  return operators;
}

}  // namespace detent

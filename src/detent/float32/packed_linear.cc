#include "detent/float32/packed_linear.h"

#include <algorithm>
#include <cmath>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/float32/packed_linear.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/highway.h>

#include "detent/core/fused-inl.h"
#include "detent/core/parallel.h"
#include "detent/float32/lanes-inl.h"
#include "detent/float32/panel_sums.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kLanes = hn::MaxLanes(Singles());
constexpr bool kHas32Registers = HWY_TARGET <= HWY_AVX3;

/// Vectors of a tile of so many rows: twelve sums beside the weights and an input, or 24.
constexpr int64_t most_vectors(int64_t rows) { return rows == 8 ? 3 : 12 / rows; }

template <int64_t Rows, int64_t Vectors>
HWY_NOINLINE void SumTile(const PanelSums& p, int64_t row, int64_t column) {
  const Singles d;
  hn::VFromD<Singles> sums[static_cast<size_t>(Rows)][static_cast<size_t>(Vectors)];
  for (auto& of_row : sums) {
    for (auto& sum : of_row) sum = hn::Zero(d);
  }
  const float* inputs = p.inputs + row * p.depth;
  const float* weights = p.weights + column;
  for (int64_t k = 0; k < p.depth; ++k, weights += p.width) {
    for (int64_t r = 0; r < Rows; ++r) {
      const auto input = hn::Set(d, inputs[r * p.depth + k]);
      for (int64_t v = 0; v < Vectors; ++v)
        sums[r][v] = Fused(d, input, hn::LoadU(d, weights + v * kLanes), sums[r][v]);
    }
  }
  float* results = p.results + row * p.stride + column;
  for (int64_t r = 0; r < Rows; ++r, results += p.stride) {
    for (int64_t v = 0; v < Vectors; ++v) {
      const auto bias = hn::LoadU(d, p.bias + column + v * kLanes);
      hn::StoreU(hn::Add(sums[r][v], bias), d, results + v * kLanes);
    }
  }
}

template <int64_t Rows, int64_t Vectors>
HWY_INLINE void SumTileOf(int64_t vectors, const PanelSums& p, int64_t row, int64_t column) {
  if constexpr (Vectors > 1) {
    if (vectors < Vectors) return SumTileOf<Rows, Vectors - 1>(vectors, p, row, column);
  }
  SumTile<Rows, Vectors>(p, row, column);
}

/// All columns, in tiles of about one width.
template <int64_t Rows>
HWY_INLINE void SumRows(const PanelSums& p, int64_t row) {
  constexpr int64_t kMost = most_vectors(Rows);
  for (int64_t column = 0; column < p.width;) {
    const int64_t left = (p.width - column) / kLanes;
    const int64_t tiles = (left + kMost - 1) / kMost;
    const int64_t vectors = (left + tiles - 1) / tiles;
    SumTileOf<Rows, kMost>(vectors, p, row, column);
    column += vectors * kLanes;
  }
}

void SumPanel(const PanelSums& p) {
  int64_t row = 0;
  if constexpr (kHas32Registers) {
    for (; row + 8 <= p.rows; row += 8) SumRows<8>(p, row);
  }
  for (; row + 4 <= p.rows; row += 4) SumRows<4>(p, row);
  for (; row + 2 <= p.rows; row += 2) SumRows<2>(p, row);
  for (; row < p.rows; ++row) SumRows<1>(p, row);
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(SumPanel);

namespace {

constexpr int64_t kBlock = kSumLanes;
/// Outputs of a panel, whose weights follow each other in memory: eight vectors of sixteen. The last has five
/// to twelve, or all there are.
constexpr int64_t kPanel = 8 * kBlock;
constexpr int64_t kLeastOfLast = 5 * kBlock;
/// Rows that a thread computes by a panel at once.
constexpr int64_t kRows = 64;
/// Products that are worth a thread.
constexpr int64_t kSplit = int64_t{1} << 21;

}  // namespace

PackedLinear::PackedLinear(const Tensor& weight, const std::optional<Tensor>& bias)
    : depth_(weight.dim(1)),
      stride_((weight.dim(0) + kBlock - 1) / kBlock * kBlock),
      weights_(DType::kFloat32, {stride_ * depth_}),
      bias_(DType::kFloat32, {stride_}) {
  const std::span<float> biases = bias_.values<float>();
  std::ranges::fill(biases, -0.0F);
  if (bias) std::ranges::copy(bias->values<float>(), biases.begin());
  is_finite_ = std::ranges::all_of(weight.values<float>(), [](float x) { return std::isfinite(x); });
  const float* const from = weight.values<float>().data();
  float* to = weights_.values<float>().data();
  for (int64_t panel = 0; panel < panels(); ++panel) {
    const int64_t first = panel * kPanel;
    const int64_t width = panel + 1 < panels() ? kPanel : stride_ - first;
    const int64_t count = std::min(width, weight.dim(0) - first);
    for (int64_t k = 0; k < depth_; ++k, to += width) {
      for (int64_t i = 0; i < count; ++i) to[i] = from[(first + i) * depth_ + k];
    }
  }
}

int64_t PackedLinear::panels() const { return std::max<int64_t>(0, stride_ - kLeastOfLast) / kPanel + 1; }

void PackedLinear::panel_sums(int64_t panel, const float* inputs, int64_t rows, float* results) const {
  const int64_t first = panel * kPanel;
  HWY_DYNAMIC_DISPATCH(SumPanel)
  ({.inputs = inputs,
    .weights = weights_.values<float>().data() + first * depth_,
    .bias = bias_.values<float>().data() + first,
    .results = results + first,
    .rows = rows,
    .depth = depth_,
    .width = panel + 1 < panels() ? kPanel : stride_ - first,
    .stride = stride_});
}

void PackedLinear::sums(const float* inputs, int64_t rows, float* results, bool backwards) const {
  const int64_t products = rows * depth_ * stride_;
  if (products < 2 * kSplit) {
    for (int64_t i = 0; i < panels(); ++i)
      panel_sums(backwards ? panels() - 1 - i : i, inputs, rows, results);
    return;
  }
  const int64_t parts = (rows + kRows - 1) / kRows;
  const int64_t tasks = panels() * parts;
  const int64_t grain = std::max<int64_t>(1, kSplit * tasks / products);
  parallel_for(tasks, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t task = backwards ? begin + end - 1 - i : i;
      const int64_t row = task % parts * kRows;
      panel_sums(task / parts, inputs + row * depth_, std::min(kRows, rows - row), results + row * stride_);
    }
  });
}

void PackedLinear::sums_of_zeros(int64_t rows, float* results) const {
  if (!is_finite_) {
    const std::vector<float> zeros(static_cast<size_t>(rows * depth_));
    return sums(zeros.data(), rows, results);
  }
  const float* const bias = bias_.values<float>().data();
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < stride_; ++i) results[row * stride_ + i] = 0.0F + bias[i];
  }
}

}  // namespace detent
#endif  // HWY_ONCE

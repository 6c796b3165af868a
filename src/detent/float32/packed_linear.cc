#include "detent/float32/packed_linear.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>
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

/// Where weights are read.
struct Whole {
  using Word = float;
  static const float* Of(const PanelSums& p) { return p.weights; }
  static HWY_INLINE hn::VFromD<Singles> Load(Singles d, const float* from) { return hn::LoadU(d, from); }
};
struct Halves {
  using Word = uint16_t;
  static const uint16_t* Of(const PanelSums& p) { return p.halves; }
  static HWY_INLINE hn::VFromD<Singles> Load(Singles d, const uint16_t* from) {
    const hn::Rebind<uint16_t, Singles> narrow;
    const hn::RebindToUnsigned<Singles> bits;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(bits, hn::LoadU(narrow, from))));
  }
};

template <class Weights, int64_t Rows, int64_t Vectors>
HWY_NOINLINE void SumTile(const PanelSums& p, int64_t row, int64_t column) {
  const Singles d;
  hn::VFromD<Singles> sums[static_cast<size_t>(Rows)][static_cast<size_t>(Vectors)];
  for (auto& of_row : sums) {
    for (auto& sum : of_row) sum = hn::Zero(d);
  }
  const float* inputs = p.inputs + row * p.depth;
  const typename Weights::Word* weights = Weights::Of(p) + column;
  for (int64_t k = 0; k < p.depth; ++k, weights += p.width) {
    for (int64_t r = 0; r < Rows; ++r) {
      const auto input = hn::Set(d, inputs[r * p.depth + k]);
      for (int64_t v = 0; v < Vectors; ++v)
        sums[r][v] = Fused(d, input, Weights::Load(d, weights + v * kLanes), sums[r][v]);
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

template <class Weights, int64_t Rows, int64_t Vectors>
HWY_INLINE void SumTileOf(int64_t vectors, const PanelSums& p, int64_t row, int64_t column) {
  if constexpr (Vectors > 1) {
    if (vectors < Vectors) return SumTileOf<Weights, Rows, Vectors - 1>(vectors, p, row, column);
  }
  SumTile<Weights, Rows, Vectors>(p, row, column);
}

/// All columns, in tiles of about one width.
template <class Weights, int64_t Rows>
HWY_INLINE void SumRows(const PanelSums& p, int64_t row) {
  constexpr int64_t kMost = most_vectors(Rows);
  for (int64_t column = 0; column < p.width;) {
    const int64_t left = (p.width - column) / kLanes;
    const int64_t tiles = (left + kMost - 1) / kMost;
    const int64_t vectors = (left + tiles - 1) / tiles;
    SumTileOf<Weights, Rows, kMost>(vectors, p, row, column);
    column += vectors * kLanes;
  }
}

template <class Weights>
void SumPanelOf(const PanelSums& p) {
  int64_t row = 0;
  if constexpr (kHas32Registers) {
    for (; row + 8 <= p.rows; row += 8) SumRows<Weights, 8>(p, row);
  }
  for (; row + 4 <= p.rows; row += 4) SumRows<Weights, 4>(p, row);
  for (; row + 2 <= p.rows; row += 2) SumRows<Weights, 2>(p, row);
  for (; row < p.rows; ++row) SumRows<Weights, 1>(p, row);
}

void SumPanel(const PanelSums& p) {
  if (p.halves == nullptr) return SumPanelOf<Whole>(p);
  constexpr int64_t kManyRows = 16;  // from which on it pays to widen the weights first
  if (p.rows < kManyRows) return SumPanelOf<Halves>(p);
  const Singles d;
  std::vector<float> weights(static_cast<size_t>(p.depth * p.width));
  for (int64_t i = 0; i < p.depth * p.width; i += kLanes)
    hn::StoreU(Halves::Load(d, p.halves + i), d, weights.data() + i);
  PanelSums whole = p;
  whole.weights = weights.data();
  SumPanelOf<Whole>(whole);
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
      bias_(DType::kFloat32, {stride_}) {
  const std::span<float> biases = bias_.values<float>();
  std::ranges::fill(biases, -0.0F);
  if (bias) std::ranges::copy(bias->values<float>(), biases.begin());
  is_finite_ = std::ranges::all_of(weight.values<float>(), [](float x) { return std::isfinite(x); });
  const bool is_narrow = std::ranges::all_of(
      weight.values<float>(), [](float x) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(x)) == 0; });
  weights_ = Tensor(is_narrow ? DType::kBFloat16 : DType::kFloat32, {stride_ * depth_});
  is_narrow ? pack<uint16_t>(weight) : pack<float>(weight);
}

template <class Word>
void PackedLinear::pack(const Tensor& weight) {
  const float* const from = weight.values<float>().data();
  auto* to = reinterpret_cast<Word*>(weights_.bytes().data());
  for (int64_t panel = 0; panel < panels(); ++panel) {
    const int64_t first = panel * kPanel;
    const int64_t width = panel_width(panel);
    const int64_t count = std::min(width, weight.dim(0) - first);
    for (int64_t k = 0; k < depth_; ++k, to += width) {
      for (int64_t i = 0; i < count; ++i) {
        const float x = from[(first + i) * depth_ + k];
        if constexpr (std::is_same_v<Word, float>) {
          to[i] = x;
        } else {
          to[i] = static_cast<Word>(std::bit_cast<uint32_t>(x) >> 16U);
        }
      }
    }
  }
}

int64_t PackedLinear::panel_width(int64_t panel) const {
  return panel + 1 < panels() ? kPanel : stride_ - panel * kPanel;
}

int64_t PackedLinear::panels() const { return std::max<int64_t>(0, stride_ - kLeastOfLast) / kPanel + 1; }

void PackedLinear::panel_sums(int64_t panel, const float* inputs, int64_t rows, float* results) const {
  const int64_t first = panel * kPanel;
  const bool is_narrow = weights_.dtype() == DType::kBFloat16;
  const std::byte* const weights =
      weights_.bytes().data() + static_cast<size_t>(first * depth_) * dtype_size(weights_.dtype());
  HWY_DYNAMIC_DISPATCH(SumPanel)
  ({.inputs = inputs,
    .weights = is_narrow ? nullptr : reinterpret_cast<const float*>(weights),
    .bias = bias_.values<float>().data() + first,
    .results = results + first,
    .rows = rows,
    .depth = depth_,
    .width = panel_width(panel),
    .stride = stride_,
    .halves = is_narrow ? reinterpret_cast<const uint16_t*>(weights) : nullptr});
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

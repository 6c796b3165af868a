#include "detent/autograd/affine_kernels.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/autograd/affine_kernels.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/highway.h>

#include <ATen/Parallel.h>

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using FloatTag = hn::ScalableTag<float>;
using Floats = hn::Vec<FloatTag>;

/// A group in registers.
struct Kernel {
  explicit Kernel(const AffineGroup& group)
      : scale(hn::Set(FloatTag(), group.scale)),
        low(hn::Set(FloatTag(), group.low)),
        high(hn::Set(FloatTag(), group.high)) {}

  HWY_INLINE Floats Value(Floats x) const {
    const Floats code = hn::Round(hn::Min(hn::Max(hn::Div(x, scale), low), high));
    return hn::IfThenElse(hn::IsNaN(x), x, hn::MulAdd(code, scale, hn::Zero(FloatTag())));
  }

  Floats scale, low, high;
};

/// Sums of one row, in float over a few hundred elements and in double from there on.
struct Sums {
  HWY_INLINE void Clear() { slope = below = above = hn::Zero(FloatTag()); }

  HWY_INLINE void Flush(AffineSums& sums) {
    const FloatTag d;
    sums.slope += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, slope)));
    sums.below += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, below)));
    sums.above += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, above)));
    Clear();
  }

  Floats slope, below, above;
};

HWY_INLINE Floats Gradient(const Kernel& k, Floats x, Floats g, bool everywhere, Sums& sums) {
  const FloatTag d;
  const Floats one = hn::Set(d, 1.0F);
  const Floats scaled = hn::Div(x, k.scale);
  const Floats next = hn::Round(hn::Min(hn::Max(scaled, hn::Sub(k.low, one)), hn::Add(k.high, one)));
  const auto is_below = hn::Lt(next, k.low);
  const auto is_above = hn::Gt(next, k.high);
  const auto saturates = hn::Or(is_below, is_above);
  const Floats code = hn::Min(hn::Max(next, k.low), k.high);
  sums.slope = hn::MulAdd(g, hn::Sub(code, hn::IfThenZeroElse(saturates, scaled)), sums.slope);
  sums.below = hn::Add(sums.below, hn::IfThenElseZero(is_below, g));
  sums.above = hn::Add(sums.above, hn::IfThenElseZero(is_above, g));
  return everywhere ? g : hn::IfThenZeroElse(saturates, g);
}

}  // namespace

void RoundRow(const AffineGroup& group, const float* x, float* values, size_t count) {
  const FloatTag d;
  const Kernel kernel(group);
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(kernel.Value(hn::LoadU(d, x + i)), d, values + i);
  if (i == count) return;
  HWY_ALIGN float buffer[hn::MaxLanes(d)] = {};
  std::memcpy(buffer, x + i, (count - i) * sizeof(float));
  hn::Store(kernel.Value(hn::Load(d, buffer)), d, buffer);
  std::memcpy(values + i, buffer, (count - i) * sizeof(float));
}

void GradientRow(const AffineGroup& group, const float* x, const float* of_values, bool everywhere,
                 float* of_x, size_t count, AffineSums& total) {
  constexpr size_t kFlushVectors = 64;
  const FloatTag d;
  const Kernel kernel(group);
  const size_t lanes = hn::Lanes(d);
  Sums sums;
  sums.Clear();
  size_t i = 0;
  while (i + lanes <= count) {
    const size_t end = std::min(count - count % lanes, i + kFlushVectors * lanes);
    for (; i < end; i += lanes) {
      hn::StoreU(Gradient(kernel, hn::LoadU(d, x + i), hn::LoadU(d, of_values + i), everywhere, sums), d,
                 of_x + i);
    }
    sums.Flush(total);
  }
  if (i == count) return;
  HWY_ALIGN float inputs[hn::MaxLanes(d)] = {};
  HWY_ALIGN float gradients[hn::MaxLanes(d)] = {};  // 0 adds nothing
  std::memcpy(inputs, x + i, (count - i) * sizeof(float));
  std::memcpy(gradients, of_values + i, (count - i) * sizeof(float));
  hn::Store(Gradient(kernel, hn::Load(d, inputs), hn::Load(d, gradients), everywhere, sums), d, gradients);
  std::memcpy(of_x + i, gradients, (count - i) * sizeof(float));
  sums.Flush(total);
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(RoundRow);
HWY_EXPORT(GradientRow);

namespace {

/// Calls `body(row, begin, count)` for each row, on libtorch's threads, which are there already and wait for
/// work with full speed.
template <class Body>
void for_rows(const AffineRows& rows, const Body& body) {
  constexpr int64_t kGrain = int64_t{1} << 15;
  const int64_t per_thread = std::max<int64_t>(kGrain / std::max<int64_t>(rows.length, 1), 1);
  at::parallel_for(0, rows.count(), per_thread, [&](int64_t first, int64_t last) {
    for (int64_t row = first; row < last; ++row) {
      const int64_t begin = row * rows.length;
      body(row, begin, static_cast<size_t>(std::min(rows.length, rows.elements - begin)));
    }
  });
}

}  // namespace

void round_affine_rows(const AffineRows& rows, std::span<const AffineGroup> groups, const float* x,
                       float* values) {
  for_rows(rows, [&](int64_t row, int64_t begin, size_t count) {
    HWY_DYNAMIC_DISPATCH(RoundRow)
    (groups[static_cast<size_t>(row % rows.groups)], x + begin, values + begin, count);
  });
}

std::vector<AffineSums> affine_row_gradients(const AffineRows& rows, std::span<const AffineGroup> groups,
                                             const float* x, const float* of_values, bool everywhere,
                                             float* of_x) {
  std::vector<AffineSums> of_rows(static_cast<size_t>(rows.count()));
  for_rows(rows, [&](int64_t row, int64_t begin, size_t count) {
    HWY_DYNAMIC_DISPATCH(GradientRow)
    (groups[static_cast<size_t>(row % rows.groups)], x + begin, of_values + begin, everywhere, of_x + begin,
     count, of_rows[static_cast<size_t>(row)]);
  });
  std::vector<AffineSums> sums(groups.size());
  for (size_t row = 0; row < of_rows.size(); ++row) {
    AffineSums& group = sums[row % sums.size()];
    group.slope += of_rows[row].slope;
    group.below += of_rows[row].below;
    group.above += of_rows[row].above;
  }
  return sums;
}

}  // namespace detent
#endif  // HWY_ONCE

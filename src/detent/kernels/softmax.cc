#include "detent/kernels/normalization.h"

#include <cmath>

#include "detent/core/parallel.h"
#include "detent/kernels/coefficients.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/kernels/softmax.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/highway.h>

#include "detent/kernels/elementary-inl.h"
#include "detent/kernels/lanes-inl.h"
#include "detent/kernels/single_exp-inl.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {

using Vec = hn::VFromD<Singles>;

/// exp(x) of x <= 0.
HWY_INLINE Vec ExpOfShare(Vec x) {
  const Singles d;
  const auto [r, power] = ReduceExp(d, x);
  const Vec result = Fused(d, ExpRest(d, r), power, power);
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, coefficients::kFloatLeastExp)), result);
}

HWY_INLINE float Largest(const float* x, size_t count) {
  const Singles d;
  Sixteen<Singles> largest(-HUGE_VALF);
  ForEachSixteen(count, [&](size_t first, auto part) HWY_ATTR {
    for (size_t v = 0; v < largest.kVectors; ++v) {
      const size_t offset = v * largest.kLanes;
      largest.vectors[v] = hn::Max(part.Load(d, x + first + offset, offset, -HUGE_VALF), largest.vectors[v]);
    }
  });
  Vec all = largest.vectors[0];
  for (size_t v = 1; v < largest.kVectors; ++v) all = hn::Max(all, largest.vectors[v]);
  return hn::GetLane(hn::MaxOfLanes(d, all));
}

/// Stores them, but for the logarithm. y may be x.
template <bool kStores>
HWY_INLINE float SumOfShares(const float* x, [[maybe_unused]] float* y, size_t count, float largest) {
  const Singles d;
  const Vec most = hn::Set(d, largest);
  Sixteen<Singles> sum(0);
  ForEachSixteen(count, [&](size_t first, auto part) HWY_ATTR {
    for (size_t v = 0; v < sum.kVectors; ++v) {
      const size_t offset = v * sum.kLanes;
      const Vec share = ExpOfShare(hn::Sub(part.Load(d, x + first + offset, offset, -HUGE_VALF), most));
      sum.vectors[v] = hn::Add(sum.vectors[v], share);
      if constexpr (kStores) part.Store(share, d, y + first + offset, offset);
    }
  });
  return sum.Sum();
}

HWY_INLINE float LogOfSum(float sum) {
  const hn::CappedTag<double, 1> d;
  return static_cast<float>(hn::GetLane(Log(d, hn::Set(d, static_cast<double>(sum)))));
}

void SoftmaxLines(const float* x, float* y, size_t lines, size_t count, bool log) {
  const Singles d;
  for (size_t line = 0; line < lines; ++line, x += count, y += count) {
    const float largest = Largest(x, count);
    if (log) {
      const Vec log_of_sum = hn::Set(d, LogOfSum(SumOfShares<false>(x, y, count, largest)));
      const Vec most = hn::Set(d, largest);
      MapSingles(x, y, count,
                 [&](Vec value, auto) HWY_ATTR { return hn::Sub(hn::Sub(value, most), log_of_sum); });
    } else {
      const Vec scale = hn::Set(d, 1 / SumOfShares<true>(x, y, count, largest));
      MapSingles(y, y, count, [&](Vec share, auto) HWY_ATTR { return hn::Mul(share, scale); });
    }
  }
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(SoftmaxLines);

void softmax(std::span<const float> values, std::span<float> results, int64_t count, bool log) {
  if (values.empty()) return;
  constexpr int64_t kGrain = 8192;
  parallel_for(std::ssize(values) / count, std::max<int64_t>(1, kGrain / count),
               [&](int64_t begin, int64_t end) {
                 HWY_DYNAMIC_DISPATCH(SoftmaxLines)
                 (values.data() + begin * count, results.data() + begin * count,
                  static_cast<size_t>(end - begin), static_cast<size_t>(count), log);
               });
}

}  // namespace detent
#endif  // HWY_ONCE

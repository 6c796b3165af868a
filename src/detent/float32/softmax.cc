#include "detent/float32/softmax.h"

#include <cmath>

#include "detent/core/parallel.h"
#include "detent/float32/coefficients.h"
#include "detent/float32/functions.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/float32/softmax.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/highway.h>

#include "detent/core/fused-inl.h"
#include "detent/float32/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {

using Vec = hn::VFromD<Singles>;

/// exp(x) of x <= 0.
HWY_INLINE Vec ExpOfShare(Vec x) {
  namespace c = coefficients;
  const Singles d;
  const hn::RebindToUnsigned<Singles> du;
  const Vec rounded = Fused(d, x, hn::Set(d, c::kFloatLog2E), hn::Set(d, c::kFloatRounder));
  const Vec n = hn::Sub(rounded, hn::Set(d, c::kFloatRounder));
  Vec r = Fused(d, n, hn::Set(d, -c::kFloatLn2High), x);
  r = Fused(d, n, hn::Set(d, -c::kFloatLn2Low), r);
  Vec sum = hn::Set(d, c::kFloatExp[0]);
  for (size_t i = 1; i < std::size(c::kFloatExp); ++i) sum = Fused(d, sum, r, hn::Set(d, c::kFloatExp[i]));
  const Vec rest = Fused(d, hn::Mul(r, r), sum, r);
  const auto biased = hn::Add(hn::BitCast(du, rounded), hn::Set(du, uint32_t{127}));
  const Vec power = hn::BitCast(d, hn::ShiftLeft<23>(biased));
  const Vec result = Fused(d, rest, power, power);
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, c::kFloatLeastExp)), result);
}

HWY_INLINE float Largest(const float* x, size_t count) {
  const Singles d;
  Sixteen<Singles> largest(-HUGE_VALF);
  ForEachSixteen(x, count, -HUGE_VALF, [&](const float* from, size_t) HWY_ATTR {
    for (size_t v = 0; v < largest.kVectors; ++v)
      largest.vectors[v] = hn::Max(hn::LoadU(d, from + v * largest.kLanes), largest.vectors[v]);
  });
  Vec all = largest.vectors[0];
  for (size_t v = 1; v < largest.kVectors; ++v) all = hn::Max(all, largest.vectors[v]);
  return hn::GetLane(hn::MaxOfLanes(d, all));
}

/// Stores them, but for the logarithm. y may be x.
template <bool kStores>
HWY_INLINE float SumOfShares(const float* x, float* y, size_t count, float largest) {
  const Singles d;
  const Vec most = hn::Set(d, largest);
  Sixteen<Singles> sum(0);
  ForEachSixteen(x, count, -HUGE_VALF, [&](const float* from, size_t first) HWY_ATTR {
    alignas(64) float shares[kSumLanes];
    const bool is_whole = first + kSumLanes <= count;
    float* const to = is_whole ? y + first : shares;
    for (size_t v = 0; v < sum.kVectors; ++v) {
      const Vec share = ExpOfShare(hn::Sub(hn::LoadU(d, from + v * sum.kLanes), most));
      sum.vectors[v] = hn::Add(sum.vectors[v], share);
      if constexpr (kStores) hn::StoreU(share, d, to + v * sum.kLanes);
    }
    if constexpr (kStores) {
      if (!is_whole) std::copy_n(shares, count - first, y + first);
    }
  });
  return sum.Sum();
}

void SoftmaxLines(const float* x, float* y, size_t lines, size_t count, bool log) {
  const Singles d;
  for (size_t line = 0; line < lines; ++line, x += count, y += count) {
    const float largest = Largest(x, count);
    if (log) {
      const float sum = SumOfShares<false>(x, y, count, largest);
      const Vec log_of_sum = hn::Set(d, function_reference({ElementFunction::Kind::kLog}, sum));
      const Vec most = hn::Set(d, largest);
      MapSingles(x, y, count,
                 [&](Vec value, size_t) HWY_ATTR { return hn::Sub(hn::Sub(value, most), log_of_sum); });
    } else {
      const Vec scale = hn::Set(d, 1 / SumOfShares<true>(x, y, count, largest));
      MapSingles(y, y, count, [&](Vec share, size_t) HWY_ATTR { return hn::Mul(share, scale); });
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

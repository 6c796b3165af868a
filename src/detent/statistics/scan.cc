#include "detent/statistics/scan.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/statistics/scan.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int32_t kInfinityBits = 0x7F800000;

/// Running extremes of one vector of lanes.
template <class D>
struct Lanes {
  using I = hn::RebindToSigned<D>;
  hn::VFromD<D> min, max;
  hn::VFromD<I> min_magnitude, max_magnitude;  // as signed integers, of which vectors have a minimum

  HWY_INLINE void Add(hn::VFromD<D> v) {
    const auto magnitude = hn::BitCast(I(), hn::Abs(v));
    min_magnitude = hn::Min(min_magnitude, magnitude);
    max_magnitude = hn::Max(max_magnitude, magnitude);
    min = hn::Min(min, v);
    max = hn::Max(max, v);
  }
};

ValueScan Scan(const float* values, size_t count) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const size_t lanes = hn::Lanes(d);
  ValueScan scan;
  size_t i = 0;
  if (count >= 2 * lanes) {
    const auto first = hn::LoadU(d, values);
    const auto magnitude = hn::BitCast(di, hn::Abs(first));
    // Two, so that one's latency passes while the other works.
    Lanes<decltype(d)> even = {first, first, magnitude, magnitude};
    auto odd = even;
    for (; i + 2 * lanes <= count; i += 2 * lanes) {
      even.Add(hn::LoadU(d, values + i));
      odd.Add(hn::LoadU(d, values + i + lanes));
    }
    const auto min_magnitude = hn::Min(even.min_magnitude, odd.min_magnitude);
    const auto max_magnitude = hn::Max(even.max_magnitude, odd.max_magnitude);
    scan.min_magnitude = static_cast<uint32_t>(hn::GetLane(hn::MinOfLanes(di, min_magnitude)));
    scan.max_magnitude = static_cast<uint32_t>(hn::GetLane(hn::MaxOfLanes(di, max_magnitude)));
    scan.min = hn::GetLane(hn::MinOfLanes(d, hn::Min(even.min, odd.min)));
    scan.max = hn::GetLane(hn::MaxOfLanes(d, hn::Max(even.max, odd.max)));
  }
  scan_values_reference({values + i, count - i}, scan);
  return scan;
}

FiniteCopy Copy(const float* values, size_t count, float* target) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const size_t lanes = hn::Lanes(d);
  const auto infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  const auto infinity_bits = hn::Set(di, kInfinityBits);
  // Zeros take part as the infinities that change no extreme.
  Lanes<decltype(d)> extremes = {infinity, hn::Neg(infinity), infinity_bits, hn::Zero(di)};
  FiniteCopy copy;
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto v = hn::LoadU(d, values + i);
    const auto magnitude = hn::BitCast(di, hn::Abs(v));
    if (!hn::AllTrue(di, hn::Lt(magnitude, infinity_bits))) {
      copy_finite_reference({values + i, lanes}, target, copy);
      continue;
    }
    const auto zero = hn::Eq(v, hn::Zero(d));
    extremes.max_magnitude = hn::Max(extremes.max_magnitude, magnitude);
    extremes.min_magnitude =
        hn::Min(extremes.min_magnitude, hn::IfThenElse(hn::RebindMask(di, zero), infinity_bits, magnitude));
    extremes.min = hn::Min(extremes.min, hn::IfThenElse(zero, infinity, v));
    extremes.max = hn::Max(extremes.max, hn::IfThenElse(zero, hn::Neg(infinity), v));
    const size_t zeros = hn::CountTrue(d, zero);
    // Not CompressStore: some processors need hundreds of cycles for that instruction.
    hn::StoreU(hn::Compress(v, hn::Not(zero)), d, target + copy.kinds.finite);
    copy.kinds.zeros += zeros;
    copy.kinds.finite += lanes - zeros;
  }
  if (copy.kinds.finite > 0) {
    const auto least = static_cast<uint32_t>(hn::GetLane(hn::MinOfLanes(di, extremes.min_magnitude)));
    const auto most = static_cast<uint32_t>(hn::GetLane(hn::MaxOfLanes(di, extremes.max_magnitude)));
    copy.scan.min_magnitude = std::min(copy.scan.min_magnitude, least);
    copy.scan.max_magnitude = std::max(copy.scan.max_magnitude, most);
    copy.scan.min = std::min(copy.scan.min, hn::GetLane(hn::MinOfLanes(d, extremes.min)));
    copy.scan.max = std::max(copy.scan.max, hn::GetLane(hn::MaxOfLanes(d, extremes.max)));
  }
  copy_finite_reference({values + i, count - i}, target, copy);
  return copy;
}

size_t CountZeros(const float* values, size_t count) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  size_t zeros = 0;
  size_t i = 0;
  for (; i + lanes <= count; i += lanes)
    zeros += hn::CountTrue(d, hn::Eq(hn::LoadU(d, values + i), hn::Zero(d)));
  for (; i < count; ++i) zeros += values[i] == 0 ? 1 : 0;
  return zeros;
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(Scan);
HWY_EXPORT(Copy);
HWY_EXPORT(CountZeros);

ValueScan scan_values(std::span<const float> values) {
  return HWY_DYNAMIC_DISPATCH(Scan)(values.data(), values.size());
}

FiniteCopy copy_finite(std::span<const float> values, float* target) {
  return HWY_DYNAMIC_DISPATCH(Copy)(values.data(), values.size(), target);
}

size_t count_zeros(std::span<const float> values) {
  return HWY_DYNAMIC_DISPATCH(CountZeros)(values.data(), values.size());
}

}  // namespace detent
#endif  // HWY_ONCE

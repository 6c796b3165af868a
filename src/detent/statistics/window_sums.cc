#include "detent/statistics/window_sums.h"

#include <algorithm>
#include <array>
#include <bit>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/statistics/window_sums.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

HWY_INLINE void CountKey(float value, const SideWork& beside) {
  ++beside.counts[std::bit_cast<uint32_t>(value) >> beside.dropped];
}

/// Two values a load; `count` is even.
HWY_INLINE void CountKeys(const float* values, size_t count, const SideWork& beside) {
  for (size_t i = 0; i < count; i += 2) {
    const auto pair = std::bit_cast<uint64_t>(std::array{values[i], values[i + 1]});
    ++beside.counts[static_cast<uint32_t>(pair) >> beside.dropped];
    ++beside.counts[pair >> 32 >> beside.dropped];
  }
}

#if HWY_TARGET == HWY_SCALAR  // has no vectors of several lanes to halve and widen

template <bool kHigher, bool kCount>
ExponentWindowSums Sum(const float* values, size_t count, uint32_t exponent, float* rest,
                       const SideWork& beside) {
  ExponentWindowSums sums;
  for (const float value : std::span(values, count)) {
    if constexpr (kCount) CountKey(value, beside);
    const auto bits = std::bit_cast<uint32_t>(value);
    const uint32_t magnitude = bits & 0x7FFFFFFFU;
    if (magnitude >> 23 < exponent) {
      rest[sums.rest++] = value;
      sums.rest_bits = std::max(sums.rest_bits, magnitude);
      continue;
    }
    const uint64_t n = uint64_t{(bits & 0x7FFFFFU) | 0x800000U} << ((magnitude >> 23) - exponent);
    const uint64_t a = n * n >> 28;
    const uint64_t b = n * n & 0xFFFFFFFU;
    sums.n += n;
    sums.squares += n * n;
    if constexpr (kHigher) {
      sums.an += a * n;
      sums.bn += b * n;
      sums.aa += a * a;
      sums.ab += a * b;
      sums.bb += b * b;
    }
  }
  return sums;
}

#else

using Bits = hn::ScalableTag<uint32_t>;
using Lanes = hn::RepartitionToWide<Bits>;
using BitsVec = hn::VFromD<Bits>;
using LanesVec = hn::VFromD<Lanes>;

constexpr int kHalf = 28;

HWY_INLINE UInt128 Total(LanesVec v) {
  const Lanes d;
  const auto low = hn::SumOfLanes(d, hn::And(v, hn::Set(d, 0xFFFFFFFFU)));
  const auto high = hn::SumOfLanes(d, hn::ShiftRight<32>(v));
  return (static_cast<UInt128>(hn::GetLane(high)) << 32) + hn::GetLane(low);
}

/// Sums of up to 2^8 products a lane.
template <bool kHigher>
struct Block {
  LanesVec n, squares;
  LanesVec an, bn, aa, ab, bb;

  /// n in the lower half of each lane.
  HWY_INLINE void Add(LanesVec value) {
    const Bits d32;
    const Lanes d64;
    const auto times = [&](LanesVec x, LanesVec y)
                           HWY_ATTR { return hn::MulEven(hn::BitCast(d32, x), hn::BitCast(d32, y)); };
    const auto square = times(value, value);
    n = hn::Add(n, value);
    squares = hn::Add(squares, square);
    if constexpr (kHigher) {
      const auto a = hn::ShiftRight<kHalf>(square);
      const auto b = hn::And(square, hn::Set(d64, (uint64_t{1} << kHalf) - 1));
      an = hn::Add(an, times(a, value));
      bn = hn::Add(bn, times(b, value));
      aa = hn::Add(aa, times(a, a));
      ab = hn::Add(ab, times(a, b));
      bb = hn::Add(bb, times(b, b));
    }
  }

  void Empty(ExponentWindowSums& sums) const {
    sums.n += Total(n);
    sums.squares += Total(squares);
    if constexpr (kHigher) {
      sums.an += Total(an);
      sums.bn += Total(bn);
      sums.aa += Total(aa);
      sums.ab += Total(ab);
      sums.bb += Total(bb);
    }
  }
};

template <bool kHigher, bool kCount>
ExponentWindowSums Sum(const float* values, size_t count, uint32_t exponent, float* rest,
                       const SideWork& beside) {
  const Bits d;
  const hn::RebindToSigned<Bits> di;
  const hn::RebindToFloat<Bits> df;
  const Lanes d64;
  const size_t lanes = hn::Lanes(d);
  const size_t block_size = 256 * hn::Lanes(d64);
  const auto magnitude_mask = hn::Set(d, 0x7FFFFFFFU);
  const auto fraction_mask = hn::Set(d, 0x7FFFFFU);
  const auto leading_one = hn::Set(d, 0x800000U);
  const auto below = hn::Set(di, static_cast<int32_t>((exponent << 23) - 1));
  const auto bottom = hn::Set(d, exponent);
  const auto lower_half = hn::Set(d64, 0xFFFFFFFFU);
  const auto none = hn::Zero(d64);
  const auto all = hn::FirstN(df, lanes);
  auto rest_bits = hn::Zero(di);
  const SideWork side = beside;  // not in memory either
  const std::span<const float> next = beside.next.empty() ? std::span(values, count) : beside.next;
  ExponentWindowSums sums;
  size_t rest_count = 0;  // not in memory that stores might change
  for (size_t begin = 0; begin < count; begin += block_size) {
    const size_t end = std::min(begin + block_size, count);
    Block<kHigher> block = {none, none, none, none, none, none, none};
    const auto add = [&](auto loaded, auto there) HWY_ATTR {
      const auto bits = hn::BitCast(d, loaded);
      const auto magnitude = hn::And(bits, magnitude_mask);
      const auto inside = hn::Gt(hn::BitCast(di, magnitude), below);
      const auto mantissa = hn::Or(hn::And(bits, fraction_mask), leading_one);
      // Without a branch, which would be foreseen badly.
      auto shift = hn::Sub(hn::ShiftRight<23>(magnitude), bottom);
      // Where it is not inside this is any number. Processors then shift something away; in the C++ that
      // stands in for one, that is undefined.
      if constexpr (HWY_TARGET == HWY_EMU128) shift = hn::And(shift, hn::Set(d, 31));
      const auto n = hn::BitCast(d, hn::IfThenElseZero(inside, hn::BitCast(di, hn::Shl(mantissa, shift))));
      rest_bits = hn::Max(rest_bits, hn::IfThenZeroElse(inside, hn::BitCast(di, magnitude)));
      const auto outside = hn::And(hn::Not(hn::RebindMask(df, inside)), there);
      hn::StoreU(hn::Compress(loaded, outside), df, rest + rest_count);
      rest_count += hn::CountTrue(df, outside);
      const auto wide = hn::BitCast(d64, n);
      block.Add(hn::And(wide, lower_half));
      block.Add(hn::ShiftRight<32>(wide));
    };
    size_t i = begin;
    for (; i + lanes <= end; i += lanes) {
      add(hn::LoadU(df, values + i), all);
      if constexpr (kCount) CountKeys(values + i, lanes, side);
      __builtin_prefetch(next.data() + std::min(i, next.size()), 0, 2);
    }
    if (i < end) {
      const auto there = hn::FirstN(df, end - i);
      add(hn::MaskedLoad(there, df, values + i), there);
      if constexpr (kCount) {
        for (; i < end; ++i) CountKey(values[i], beside);
      }
    }
    block.Empty(sums);
  }
  sums.rest = rest_count;
  sums.rest_bits = static_cast<uint32_t>(hn::GetLane(hn::MaxOfLanes(di, rest_bits)));
  return sums;
}

#endif  // HWY_SCALAR

ExponentWindowSums SumWindow(const float* values, size_t count, uint32_t exponent, bool higher, float* rest,
                             const SideWork& beside) {
  if (beside.counts == nullptr) {
    return higher ? Sum<true, false>(values, count, exponent, rest, beside)
                  : Sum<false, false>(values, count, exponent, rest, beside);
  }
  return higher ? Sum<true, true>(values, count, exponent, rest, beside)
                : Sum<false, true>(values, count, exponent, rest, beside);
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(SumWindow);

ExponentWindowSums sum_window(std::span<const float> values, uint32_t exponent, bool higher, float* rest,
                              const SideWork& beside) {
  return HWY_DYNAMIC_DISPATCH(SumWindow)(values.data(), values.size(), exponent, higher, rest, beside);
}

}  // namespace detent
#endif  // HWY_ONCE

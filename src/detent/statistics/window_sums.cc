#include "detent/statistics/window_sums.h"

#include <algorithm>
#include <bit>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/statistics/window_sums.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR  // has no vectors of several lanes to halve and widen

template <bool kHigher>
WindowSums Sum(const float* values, size_t count, uint32_t exponent, float* rest) {
  WindowSums sums;
  for (const float value : std::span(values, count)) {
    const auto bits = std::bit_cast<uint32_t>(value);
    const uint32_t magnitude = bits & 0x7FFFFFFFU;
    if (magnitude >> 23 < exponent) {
      rest[sums.rest++] = value;
      sums.rest_bits = std::max(sums.rest_bits, magnitude);
      continue;
    }
    const uint64_t n = uint64_t{(bits & 0x7FFFFFU) | 0x800000U} << ((magnitude >> 23) - exponent);
    const uint64_t negative = value < 0 ? n : 0;
    const uint64_t a = n * n >> 28;
    const uint64_t b = n * n & 0xFFFFFFFU;
    sums.n += n;
    sums.negative_n += negative;
    sums.squares += n * n;
    if constexpr (kHigher) {
      sums.an += a * n;
      sums.bn += b * n;
      sums.negative_an += a * negative;
      sums.negative_bn += b * negative;
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
  HWY_ALIGN uint64_t lanes[hn::MaxLanes(Lanes())];
  hn::Store(v, Lanes(), lanes);
  UInt128 total = 0;
  for (size_t i = 0; i < hn::Lanes(Lanes()); ++i) total += lanes[i];
  return total;
}

/// Sums of up to 2^8 products a lane.
template <bool kHigher>
struct Block {
  LanesVec n, negative_n, squares;
  LanesVec an, bn, negative_an, negative_bn, aa, ab, bb;

  /// n in the lower half of each lane, and the same without those of positive values.
  HWY_INLINE void Add(LanesVec value, LanesVec negative, bool any_negative) {
    const Bits d32;
    const Lanes d64;
    const auto times = [&](LanesVec x, LanesVec y)
                           HWY_ATTR { return hn::MulEven(hn::BitCast(d32, x), hn::BitCast(d32, y)); };
    const auto square = times(value, value);
    n = hn::Add(n, value);
    squares = hn::Add(squares, square);
    if (any_negative) negative_n = hn::Add(negative_n, negative);
    if constexpr (kHigher) {
      const auto a = hn::ShiftRight<kHalf>(square);
      const auto b = hn::And(square, hn::Set(d64, (uint64_t{1} << kHalf) - 1));
      an = hn::Add(an, times(a, value));
      bn = hn::Add(bn, times(b, value));
      if (any_negative) {
        negative_an = hn::Add(negative_an, times(a, negative));
        negative_bn = hn::Add(negative_bn, times(b, negative));
      }
      aa = hn::Add(aa, times(a, a));
      ab = hn::Add(ab, times(a, b));
      bb = hn::Add(bb, times(b, b));
    }
  }

  void Empty(WindowSums& sums) const {
    sums.n += Total(n);
    sums.negative_n += Total(negative_n);
    sums.squares += Total(squares);
    if constexpr (kHigher) {
      sums.an += Total(an);
      sums.bn += Total(bn);
      sums.negative_an += Total(negative_an);
      sums.negative_bn += Total(negative_bn);
      sums.aa += Total(aa);
      sums.ab += Total(ab);
      sums.bb += Total(bb);
    }
  }
};

template <bool kHigher>
WindowSums Sum(const float* values, size_t count, uint32_t exponent, float* rest) {
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
  auto rest_bits = hn::Zero(di);
  WindowSums sums;
  for (size_t begin = 0; begin < count; begin += block_size) {
    const size_t end = std::min(begin + block_size, count);
    Block<kHigher> block = {none, none, none, none, none, none, none, none, none, none};
    for (size_t i = begin; i < end; i += lanes) {
      const auto there = hn::FirstN(df, end - i);
      const bool whole = end - i >= lanes;
      const auto loaded = whole ? hn::LoadU(df, values + i) : hn::MaskedLoad(there, df, values + i);
      const auto bits = hn::BitCast(d, loaded);
      const auto magnitude = hn::And(bits, magnitude_mask);
      const auto inside = hn::Gt(hn::BitCast(di, magnitude), below);
      const auto mantissa = hn::Or(hn::And(bits, fraction_mask), leading_one);
      auto n = hn::Shl(mantissa, hn::Sub(hn::ShiftRight<23>(magnitude), bottom));
      if (!hn::AllTrue(di, inside)) {
        n = hn::BitCast(d, hn::IfThenElseZero(inside, hn::BitCast(di, n)));
        rest_bits = hn::Max(rest_bits, hn::IfThenZeroElse(inside, hn::BitCast(di, magnitude)));
        const auto outside = hn::And(hn::Not(hn::RebindMask(df, inside)), there);
        hn::StoreU(hn::Compress(loaded, outside), df, rest + sums.rest);
        sums.rest += hn::CountTrue(df, outside);
      }
      const auto negative = hn::And(n, hn::BitCast(d, hn::BroadcastSignBit(hn::BitCast(di, bits))));
      const bool any_negative = !hn::AllFalse(df, hn::Lt(loaded, hn::Zero(df)));
      const auto even = [&](BitsVec v) HWY_ATTR { return hn::And(hn::BitCast(d64, v), lower_half); };
      const auto odd = [&](BitsVec v) HWY_ATTR { return hn::ShiftRight<32>(hn::BitCast(d64, v)); };
      block.Add(even(n), even(negative), any_negative);
      block.Add(odd(n), odd(negative), any_negative);
    }
    block.Empty(sums);
  }
  sums.rest_bits = static_cast<uint32_t>(hn::GetLane(hn::MaxOfLanes(di, rest_bits)));
  return sums;
}

#endif  // HWY_SCALAR

WindowSums SumSquares(const float* values, size_t count, uint32_t exponent, float* rest) {
  return Sum<false>(values, count, exponent, rest);
}
WindowSums SumFourths(const float* values, size_t count, uint32_t exponent, float* rest) {
  return Sum<true>(values, count, exponent, rest);
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(SumSquares);
HWY_EXPORT(SumFourths);

WindowSums sum_window(std::span<const float> values, uint32_t exponent, bool higher, float* rest) {
  if (higher) return HWY_DYNAMIC_DISPATCH(SumFourths)(values.data(), values.size(), exponent, rest);
  return HWY_DYNAMIC_DISPATCH(SumSquares)(values.data(), values.size(), exponent, rest);
}

}  // namespace detent
#endif  // HWY_ONCE

#include "detent/statistics/scan.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/statistics/scan.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Bits = hn::ScalableTag<uint32_t>;
using SignedBits = hn::RebindToSigned<Bits>;
using BitsVec = hn::VFromD<Bits>;

constexpr uint32_t kSignBit = 0x80000000U;

/// Running extremes of the magnitudes of either sign in each lane. As signed integers, the bits of positive
/// values are the largest; as unsigned ones, those of negative values. What lies below the smallest of a kind
/// wraps around to the top.
struct Extent {
  BitsVec least_positive;  // less 1
  BitsVec most_positive;
  BitsVec least_negative;  // less 1
  BitsVec most_negative;   // with the sign

  HWY_INLINE void Add(BitsVec bits) {
    const Bits d;
    const SignedBits di;
    least_positive = hn::Min(least_positive, hn::Sub(bits, hn::Set(d, 1)));
    most_positive = hn::BitCast(d, hn::Max(hn::BitCast(di, most_positive), hn::BitCast(di, bits)));
    least_negative = hn::Min(least_negative, hn::Sub(bits, hn::Set(d, kSignBit + 1)));
    most_negative = hn::Max(most_negative, bits);
  }
  HWY_INLINE void Merge(const Extent& other) {
    const Bits d;
    const SignedBits di;
    least_positive = hn::Min(least_positive, other.least_positive);
    most_positive =
        hn::BitCast(d, hn::Max(hn::BitCast(di, most_positive), hn::BitCast(di, other.most_positive)));
    least_negative = hn::Min(least_negative, other.least_negative);
    most_negative = hn::Max(most_negative, other.most_negative);
  }
  Magnitudes Positive() const {
    const uint32_t most = hn::GetLane(hn::MaxOfLanes(Bits(), most_positive));
    if (most == 0) return {};
    return {hn::GetLane(hn::MinOfLanes(Bits(), least_positive)) + 1, most};
  }
  Magnitudes Negative() const {
    const uint32_t most = hn::GetLane(hn::MaxOfLanes(Bits(), most_negative));
    if (most <= kSignBit) return {};
    return {hn::GetLane(hn::MinOfLanes(Bits(), least_negative)) + 1, most - kSignBit};
  }
};

struct Counts {
  BitsVec positive;
  BitsVec zeros;

  HWY_INLINE void Add(BitsVec bits) {
    const Bits d;
    const SignedBits di;
    const auto none = hn::Zero(d);
    const auto magnitude = hn::And(bits, hn::Set(d, kSignBit - 1));
    // A mask is -1 in each of its lanes.
    positive =
        hn::Sub(positive, hn::BitCast(d, hn::VecFromMask(di, hn::Gt(hn::BitCast(di, bits), hn::Zero(di)))));
    zeros = hn::Sub(zeros, hn::VecFromMask(d, hn::Eq(magnitude, none)));
  }
};

ValueScan Scan(const float* values, size_t count) {
  const hn::ScalableTag<float> df;
  const Bits d;
  const size_t lanes = hn::Lanes(d);
  const auto none = hn::Zero(d);
  const auto top = hn::Not(none);
  ValueScan scan;
  size_t i = 0;
  if (count >= lanes) {
    // Two, so that one's latency passes while the other works.
    Extent even = {top, none, top, none};
    Extent odd = even;
    Counts counts = {none, none};
    for (; i + 2 * lanes <= count; i += 2 * lanes) {
      const auto a = hn::BitCast(d, hn::LoadU(df, values + i));
      const auto b = hn::BitCast(d, hn::LoadU(df, values + i + lanes));
      even.Add(a);
      odd.Add(b);
      counts.Add(a);
      counts.Add(b);
    }
    if (i + lanes <= count) {
      const auto a = hn::BitCast(d, hn::LoadU(df, values + i));
      even.Add(a);
      counts.Add(a);
      i += lanes;
    }
    even.Merge(odd);
    scan.positive = even.Positive();
    scan.negative = even.Negative();
    scan.positive_count = hn::GetLane(hn::SumOfLanes(d, counts.positive));
    scan.zeros = hn::GetLane(hn::SumOfLanes(d, counts.zeros));
  }
  scan_values_reference({values + i, count - i}, scan);
  return scan;
}

SplitValues Split(const float* values, size_t count, float* positive, float* negative) {
  const hn::ScalableTag<float> df;
  const Bits d;
  const SignedBits di;
  const size_t lanes = hn::Lanes(d);
  const auto infinity = hn::Set(di, 0x7F800000);
  const auto none = hn::Zero(d);
  const auto top = hn::Not(none);
  Extent extent = {top, none, top, none};
  SplitValues split;
  size_t positives = 0;
  size_t negatives = 0;
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto value = hn::LoadU(df, values + i);
    if (!hn::AllTrue(di, hn::Lt(hn::BitCast(di, hn::Abs(value)), infinity))) {
      split.kinds.positive = positives;
      split.kinds.negative = negatives;
      split_values_reference({values + i, lanes}, positive, negative, split);
      positives = split.kinds.positive;
      negatives = split.kinds.negative;
      continue;
    }
    extent.Add(hn::BitCast(d, value));
    const auto above = hn::Gt(value, hn::Zero(df));
    const auto below = hn::Lt(value, hn::Zero(df));
    // Not CompressStore: some processors need hundreds of cycles for that instruction.
    hn::StoreU(hn::Compress(value, above), df, positive + positives);
    hn::StoreU(hn::Compress(value, below), df, negative + negatives);
    const size_t more_positives = hn::CountTrue(df, above);
    const size_t more_negatives = hn::CountTrue(df, below);
    positives += more_positives;
    negatives += more_negatives;
    split.kinds.zeros += lanes - more_positives - more_negatives;
  }
  split.kinds.positive = positives;
  split.kinds.negative = negatives;
  split.positive.merge(extent.Positive());
  split.negative.merge(extent.Negative());
  split_values_reference({values + i, count - i}, positive, negative, split);
  return split;
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(Scan);
HWY_EXPORT(Split);

ValueScan scan_values(std::span<const float> values) {
  return HWY_DYNAMIC_DISPATCH(Scan)(values.data(), values.size());
}

SplitValues split_values(std::span<const float> values, float* positive, float* negative) {
  return HWY_DYNAMIC_DISPATCH(Split)(values.data(), values.size(), positive, negative);
}

}  // namespace detent
#endif  // HWY_ONCE

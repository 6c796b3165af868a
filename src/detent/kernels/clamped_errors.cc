#include "detent/kernels/clamped_errors.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/kernels/clamped_errors.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using ErrorLanes = hn::CappedTag<double, 8>;
using ErrorVector = hn::Vec<ErrorLanes>;

/// As std::min and std::max do, NaN stays.
HWY_INLINE ErrorVector CutOff(ErrorVector value, ErrorVector low, ErrorVector high) {
  const auto raised = hn::IfThenElse(hn::Lt(value, low), low, value);
  return hn::IfThenElse(hn::Lt(high, raised), high, raised);
}

/// The channels of some vectors, from `begin` on. The sums and bounds of two fit the registers.
template <size_t kVectors>
HWY_INLINE void SumErrors(const ClampedPairs& p, const double* shifts, size_t begin, ClampedErrors& sums) {
  const ErrorLanes d;
  const hn::Rebind<float, ErrorLanes> df;
  const size_t lanes = hn::Lanes(d);
  const auto low = hn::Set(d, p.low);
  const auto high = hn::Set(d, p.high);
  const auto one = hn::Set(d, 1.0);
  ErrorVector shift[kVectors];
  ErrorVector squares[kVectors];
  ErrorVector differences[kVectors];
  ErrorVector counts[kVectors];
  for (size_t v = 0; v < kVectors; ++v) {
    shift[v] = hn::LoadU(d, shifts + begin + v * lanes);
    squares[v] = differences[v] = counts[v] = hn::Zero(d);
  }
  const float* got_row = p.got + begin;
  const float* wanted_row = p.wanted + begin;
  for (int64_t i = 0; i < p.positions; ++i, got_row += p.stride, wanted_row += p.stride) {
    for (size_t v = 0; v < kVectors; ++v) {
      const auto got = hn::PromoteTo(d, hn::LoadU(df, got_row + v * lanes));
      const auto wanted = CutOff(hn::PromoteTo(d, hn::LoadU(df, wanted_row + v * lanes)), low, high);
      const auto value = hn::Add(got, shift[v]);
      const auto error = hn::Sub(wanted, CutOff(value, low, high));
      squares[v] = hn::Add(squares[v], hn::Mul(error, error));
      const auto is_within = hn::And(hn::Gt(value, low), hn::Lt(value, high));
      differences[v] = hn::Add(differences[v], hn::IfThenElseZero(is_within, hn::Sub(wanted, got)));
      counts[v] = hn::Add(counts[v], hn::IfThenElseZero(is_within, one));
    }
  }
  for (size_t v = 0; v < kVectors; ++v) {
    const size_t first = begin + v * lanes;
    hn::StoreU(squares[v], d, sums.squares.data() + first);
    hn::StoreU(differences[v], d, sums.differences.data() + first);
    hn::StoreU(counts[v], d, sums.counts.data() + first);
  }
}

/// The same of fewer channels than a vector has.
HWY_INLINE void SumLastErrors(ClampedPairs p, const double* shifts, size_t begin, ClampedErrors& sums) {
  p.wanted += begin;
  p.got += begin;
  p.channels -= static_cast<int64_t>(begin);
  ClampedErrors::Lanes last{};
  std::copy_n(shifts + begin, p.channels, last.begin());
  const ClampedErrors of_last = plain::clamped_errors(p, last);
  std::copy_n(of_last.squares.begin(), p.channels, sums.squares.data() + begin);
  std::copy_n(of_last.differences.begin(), p.channels, sums.differences.data() + begin);
  std::copy_n(of_last.counts.begin(), p.channels, sums.counts.data() + begin);
}

void SumClampedErrors(const ClampedPairs& pairs, const double* shifts, ClampedErrors& sums) {
  const size_t lanes = hn::Lanes(ErrorLanes());
  const auto channels = static_cast<size_t>(pairs.channels);
  size_t begin = 0;
  for (; begin + 2 * lanes <= channels; begin += 2 * lanes) SumErrors<2>(pairs, shifts, begin, sums);
  for (; begin + lanes <= channels; begin += lanes) SumErrors<1>(pairs, shifts, begin, sums);
  if (begin < channels) SumLastErrors(pairs, shifts, begin, sums);
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(SumClampedErrors);

ClampedErrors clamped_errors(const ClampedPairs& pairs, const ClampedErrors::Lanes& shifts) {
  ClampedErrors sums;
  HWY_DYNAMIC_DISPATCH(SumClampedErrors)(pairs, shifts.data(), sums);
  return sums;
}

}  // namespace detent
#endif  // HWY_ONCE

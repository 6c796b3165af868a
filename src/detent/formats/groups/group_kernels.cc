#include "detent/formats/groups/grouping.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/formats/groups/group_kernels.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Doubles = hn::ScalableTag<double>;
using OneDouble = hn::CappedTag<double, 1>;
using Floats = hn::ScalableTag<float>;

constexpr float kLargestFloat = std::numeric_limits<float>::max();

/// Elements of a vector of doubles, as float32.
template <class D>
using Narrow = hn::Rebind<float, D>;

/// The magnitudes of the elements themselves.
struct Whole {
  template <class D>
  HWY_INLINE hn::Vec<D> Magnitude(D /*d*/, hn::Vec<D> x) const {
    return hn::Abs(x);
  }
};

/// Rest after the first `kCount` gammas.
template <size_t kCount>
class Residual {
 public:
  explicit Residual(std::span<const float> gammas) { std::copy_n(gammas.begin(), kCount, gammas_); }

  template <class D>
  HWY_INLINE hn::Vec<D> Magnitude(D d, hn::Vec<D> x) const {
    for (const float each : gammas_) {
      const auto gamma = hn::Set(d, each);
      x = hn::Sub(x, hn::IfThenElse(hn::Ge(x, hn::Zero(d)), gamma, hn::Neg(gamma)));
    }
    return hn::Abs(x);
  }

 private:
  float gammas_[kCount];
};

/// All magnitudes.
struct Untested {
  template <class D>
  HWY_INLINE hn::Vec<D> Counted(D /*d*/, hn::Vec<D> magnitude) {
    return magnitude;
  }
};

/// 0 for those that do not count.
struct Tested {
  float bound;
  int64_t count = 0;

  template <class D>
  HWY_INLINE hn::Vec<D> Counted(D d, hn::Vec<D> magnitude) {
    const auto counts =
        hn::And(hn::Gt(magnitude, hn::Set(d, bound)), hn::Le(magnitude, hn::Set(d, kLargestFloat)));
    count += static_cast<int64_t>(hn::CountTrue(d, counts));
    return hn::IfThenElseZero(counts, magnitude);
  }
};

template <class D, class Left, class Test>
HWY_INLINE hn::Vec<D> Terms(D d, const float* from, const Left& left, Test& test) {
  const Narrow<D> narrow;
  return hn::PromoteTo(d, test.Counted(narrow, left.Magnitude(narrow, hn::LoadU(narrow, from))));
}

template <class Left, class Test>
void AddRun(const float* from, int64_t size, const Left left, Test& test_of_part, double* sums) {
  constexpr Doubles d;
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(d));
  constexpr int64_t kVectors = kRunningSums / kLanes;
  Test test = test_of_part;  // in registers, as the sums are
  hn::Vec<Doubles> sum[static_cast<size_t>(kVectors)];
  for (int64_t v = 0; v < kVectors; ++v) sum[v] = hn::LoadU(d, sums + v * kLanes);
  int64_t i = 0;
  for (; i + kRunningSums <= size; i += kRunningSums) {
    for (int64_t v = 0; v < kVectors; ++v)
      sum[v] = hn::Add(sum[v], Terms(d, from + i + v * kLanes, left, test));
  }
  for (int64_t v = 0; v < kVectors; ++v) hn::StoreU(sum[v], d, sums + v * kLanes);
  for (; i < size; ++i) sums[i % kRunningSums] += hn::GetLane(Terms(OneDouble(), from + i, left, test));
  test_of_part = test;
}

template <class Left, class Test>
double SumPart(const GroupPart& part, const Left& left, Test& test) {
  double sums[kRunningSums] = {};
  part.for_each_run([&](const float* run, int64_t size) HWY_ATTR { AddRun(run, size, left, test, sums); });
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

// Double holds the sum of any finite float32 that memory has room for: where it is finite, all were.
template <class Left>
MagnitudeSum SumOf(const GroupPart& part, const Left& left, float bound) {
  if (bound < 0) {
    Untested all;
    const double sum = SumPart(part, left, all);
    if (std::isfinite(sum)) return {sum, part.end - part.begin};
  }
  Tested test{bound};
  const double sum = SumPart(part, left, test);
  return {sum, test.count};
}

/// With as many gammas as there are, at least kCount.
template <size_t kCount>
MagnitudeSum SumOfResiduals(const GroupPart& part, std::span<const float> gammas, float bound) {
  if constexpr (kCount < kMostGammas) {
    if (gammas.size() > kCount) return SumOfResiduals<kCount + 1>(part, gammas, bound);
  }
  return SumOf(part, Residual<kCount>(gammas), bound);
}

MagnitudeSum SumMagnitudes(const GroupPart& part, std::span<const float> gammas, float bound) {
  if (gammas.empty()) return SumOf(part, Whole(), bound);
  return SumOfResiduals<1>(part, gammas, bound);
}

HWY_INLINE hn::Vec<Floats> LoadFinite(Floats d, const float* from) {
  const auto x = hn::LoadU(d, from);
  return hn::IfThenElseZero(hn::Le(hn::Abs(x), hn::Set(d, kLargestFloat)), x);
}

/// state.Update(x) until every element was in a vector x, as 0 where it is not finite. Zeros and elements
/// that come twice may be among them.
template <class State>
void UpdateRun(const float* run, int64_t size, State& state) {
  const Floats d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  State local = state;  // in registers
  int64_t i = 0;
  for (; i + lanes <= size; i += lanes) local.Update(LoadFinite(d, run + i));
  if (i < size && size >= lanes) {
    local.Update(LoadFinite(d, run + size - lanes));
  } else if (i < size) {
    HWY_ALIGN float few[hn::MaxLanes(d)] = {};
    std::memcpy(few, run, static_cast<size_t>(size) * sizeof(float));
    local.Update(LoadFinite(d, few));
  }
  state = local;
}

template <class State>
State UpdatePart(const GroupPart& part) {
  State state;
  part.for_each_run([&](const float* run, int64_t size) HWY_ATTR { UpdateRun(run, size, state); });
  return state;
}

struct RangeState {
  RangeState() : low(hn::Zero(Floats())), high(hn::Zero(Floats())) {}
  HWY_INLINE void Update(hn::Vec<Floats> x) {
    low = hn::Min(low, x);
    high = hn::Max(high, x);
  }

  hn::Vec<Floats> low, high;
};

// Which of two zeros is the lesser one differs between instruction sets: + 0 leaves +0.
Interval RangeWithZero(const GroupPart& part) {
  const Floats d;
  const auto range = UpdatePart<RangeState>(part);
  return {hn::GetLane(hn::MinOfLanes(d, range.low)) + 0.0F,
          hn::GetLane(hn::MaxOfLanes(d, range.high)) + 0.0F};
}

struct LargestState {
  LargestState() : largest(hn::Zero(Floats())) {}
  HWY_INLINE void Update(hn::Vec<Floats> x) { largest = hn::Max(largest, hn::Abs(x)); }

  hn::Vec<Floats> largest;
};

float LargestMagnitude(const GroupPart& part) {
  const Floats d;
  return hn::GetLane(hn::MaxOfLanes(d, UpdatePart<LargestState>(part).largest));
}

void WidenRanges(const float* values, int64_t rows, std::span<float> low, std::span<float> high) {
  const auto widen = [&](auto d, size_t column, const float* from) HWY_ATTR {
    const auto x = hn::LoadU(d, from + column);
    const auto finite = hn::IfThenElseZero(hn::Le(hn::Abs(x), hn::Set(d, kLargestFloat)), x);
    hn::StoreU(hn::Min(hn::LoadU(d, low.data() + column), finite), d, low.data() + column);
    hn::StoreU(hn::Max(hn::LoadU(d, high.data() + column), finite), d, high.data() + column);
  };
  const size_t columns = low.size();
  for (int64_t row = 0; row < rows; ++row, values += columns) {
    size_t column = 0;
    for (; column + hn::Lanes(Floats()) <= columns; column += hn::Lanes(Floats()))
      widen(Floats(), column, values);
    for (; column < columns; ++column) widen(hn::CappedTag<float, 1>(), column, values);
  }
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(SumMagnitudes);
HWY_EXPORT(RangeWithZero);
HWY_EXPORT(LargestMagnitude);
HWY_EXPORT(WidenRanges);

MagnitudeSum sum_magnitudes(const GroupPart& part, std::span<const float> gammas, float bound) {
  return HWY_DYNAMIC_DISPATCH(SumMagnitudes)(part, gammas, bound);
}

Interval range_with_zero(const GroupPart& part) { return HWY_DYNAMIC_DISPATCH(RangeWithZero)(part); }

void widen_ranges(const float* values, int64_t rows, std::span<float> low, std::span<float> high) {
  HWY_DYNAMIC_DISPATCH(WidenRanges)(values, rows, low, high);
}

float largest_magnitude(const GroupPart& part) { return HWY_DYNAMIC_DISPATCH(LargestMagnitude)(part); }

}  // namespace detent
#endif  // HWY_ONCE

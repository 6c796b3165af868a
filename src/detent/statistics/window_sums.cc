#include "detent/statistics/window_sums.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/statistics/window_sums.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

WindowSums SumWindow(const float* values, size_t count, float lowest, float* rest) {
  const hn::ScalableTag<double> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::Rebind<float, decltype(d)> df;
  const size_t lanes = hn::Lanes(d);
  const auto low = hn::Set(d, double{lowest});
  const auto high_bits = hn::BitCast(d, hn::Set(du, ~((uint64_t{1} << 41) - 1)));
  auto sum = hn::Zero(d);
  auto magnitudes = sum;
  auto high_squares = sum;
  auto products = sum;
  auto low_squares = sum;
  WindowSums result;
  const auto add = [&](hn::VFromD<decltype(df)> loaded, const float* source, size_t size) HWY_ATTR {
    auto x = hn::PromoteTo(d, loaded);
    const auto inside = hn::Ge(hn::Abs(x), low);
    if (!hn::AllTrue(d, inside)) {
      for (size_t i = 0; i < size; ++i) {
        if (std::fabs(source[i]) < lowest) rest[result.rest++] = source[i];
      }
      x = hn::IfThenElseZero(inside, x);
    }
    const auto h = hn::And(x, high_bits);
    const auto l = hn::Sub(x, h);
    sum = hn::Add(sum, x);
    magnitudes = hn::Add(magnitudes, hn::Abs(x));
    high_squares = hn::MulAdd(h, h, high_squares);
    products = hn::MulAdd(h, l, products);
    low_squares = hn::MulAdd(l, l, low_squares);
  };
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) add(hn::LoadU(df, values + i), values + i, lanes);
  for (; i < count; ++i) add(hn::IfThenElseZero(hn::FirstN(df, 1), hn::Set(df, values[i])), values + i, 1);
  result.values = hn::GetLane(hn::SumOfLanes(d, sum));
  result.magnitudes = hn::GetLane(hn::SumOfLanes(d, magnitudes));
  result.high_squares = hn::GetLane(hn::SumOfLanes(d, high_squares));
  result.products = hn::GetLane(hn::SumOfLanes(d, products));
  result.low_squares = hn::GetLane(hn::SumOfLanes(d, low_squares));
  return result;
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(SumWindow);

WindowSums sum_window(std::span<const float> values, float lowest, float* rest) {
  return HWY_DYNAMIC_DISPATCH(SumWindow)(values.data(), values.size(), lowest, rest);
}

}  // namespace detent
#endif  // HWY_ONCE

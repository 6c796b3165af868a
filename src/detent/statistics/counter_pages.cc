#include "detent/statistics/key_histogram.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/statistics/counter_pages.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

uint32_t SumOfCounts(const uint32_t* counts, size_t size) {
  const hn::ScalableTag<uint32_t> d;
  const size_t lanes = hn::Lanes(d);
  auto sum = hn::Zero(d);
  size_t i = 0;
  for (; i + lanes <= size; i += lanes) sum = hn::Add(sum, hn::LoadU(d, counts + i));
  return hn::GetLane(hn::SumOfLanes(d, sum)) + sum_of_counts_reference({counts + i, size - i});
}

bool AddCounts(uint32_t* counts, size_t size, uint16_t* counters) {
  const hn::ScalableTag<uint32_t> d;
  const hn::RebindToSigned<decltype(d)> di;
  const hn::Rebind<uint16_t, decltype(d)> d16;
  const size_t lanes = hn::Lanes(d);
  const auto low = hn::Set(d, 0xFFFFU);
  auto passed = hn::Zero(d);
  size_t i = 0;
  for (; i + lanes <= size; i += lanes) {
    const auto sum = hn::Add(hn::LoadU(d, counts + i), hn::PromoteTo(d, hn::LoadU(d16, counters + i)));
    hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di, hn::And(sum, low))), d16, counters + i);
    const auto passes = hn::ShiftRight<16>(sum);
    hn::StoreU(passes, d, counts + i);
    passed = hn::Or(passed, passes);
  }
  const bool last = add_counts_reference({counts + i, size - i}, counters + i);
  return last || !hn::AllTrue(d, hn::Eq(passed, hn::Zero(d)));
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(SumOfCounts);
HWY_EXPORT(AddCounts);

uint32_t sum_of_counts(std::span<const uint32_t> counts) {
  return HWY_DYNAMIC_DISPATCH(SumOfCounts)(counts.data(), counts.size());
}

bool add_counts(std::span<uint32_t> counts, uint16_t* counters) {
  return HWY_DYNAMIC_DISPATCH(AddCounts)(counts.data(), counts.size(), counters);
}

uint32_t sum_of_counts_reference(std::span<const uint32_t> counts) {
  uint32_t sum = 0;
  for (const uint32_t count : counts) sum += count;
  return sum;
}

bool add_counts_reference(std::span<uint32_t> counts, uint16_t* counters) {
  bool passed = false;
  for (size_t i = 0; i < counts.size(); ++i) {
    const uint32_t sum = counts[i] + counters[i];
    counters[i] = static_cast<uint16_t>(sum & 0xFFFFU);
    counts[i] = sum >> 16;
    passed |= counts[i] > 0;
  }
  return passed;
}

}  // namespace detent
#endif  // HWY_ONCE

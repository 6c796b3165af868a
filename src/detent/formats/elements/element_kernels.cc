#include "detent/formats/elements/element_kernels.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/formats/elements/element_kernels.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "detent/formats/elements/element_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {

void StreamRange(const float* values, float* output, int64_t count) {
  const auto as_is = [](auto x, size_t /*i*/) HWY_ATTR { return x; };
  Transform(as_is, values, output, static_cast<size_t>(count), true);
}

/// Plain C++: the compiler vectorises it with the instructions of each target.
bool AnyNan(const float* values, int64_t count) {
  int32_t found = 0;
  for (int64_t i = 0; i < count; ++i) found |= values[i] != values[i] ? 1 : 0;
  return found != 0;
}

const char* TargetName() { return hwy::TargetName(HWY_TARGET); }

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(StreamRange);
HWY_EXPORT(AnyNan);
HWY_EXPORT(TargetName);

void stream_range(const float* values, float* output, int64_t count) {
  HWY_DYNAMIC_DISPATCH(StreamRange)(values, output, count);
}

void flush_stream() { hwy::FlushStream(); }

int64_t first_nan(const float* values, int64_t count) {
  if (!HWY_DYNAMIC_DISPATCH(AnyNan)(values, count)) return count;
  return std::find_if(values, values + count, [](float value) { return std::isnan(value); }) - values;
}

const char* kernel_target() { return HWY_DYNAMIC_DISPATCH(TargetName)(); }

}  // namespace detent
#endif  // HWY_ONCE

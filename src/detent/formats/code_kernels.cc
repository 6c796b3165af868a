#include "detent/formats/code_kernels.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/formats/code_kernels.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/highway.h>

// The loops are plain C++: the compiler vectorises them with the instructions of each target.
HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {

/// visit(coder, first, count) for each run of elements of one group, counted from `begin`.
template <class Coders, class Visit>
HWY_INLINE void ForEachRun(const Coders& coders, const Grouping& grouping, int64_t begin, int64_t end,
                           const Visit& visit) {
  for (int64_t i = begin; i < end;) {
    const int64_t run_end = std::min(end, grouping.end_of_run(i));
    const auto& coder = coders[static_cast<size_t>(grouping.group_of(i))];
    if constexpr (std::is_trivially_copyable_v<typename Coders::value_type>) {
      // A copy: what the loop writes cannot change it, which the compiler must know to vectorise.
      const auto local = coder;
      visit(local, i - begin, run_end - i);
    } else {
      visit(coder, i - begin, run_end - i);
    }
    i = run_end;
  }
}

void CodeRange(const GroupCoders& coders, const Grouping& grouping, const float* HWY_RESTRICT values,
               uint32_t* HWY_RESTRICT codes, int64_t begin, int64_t end) {
  std::visit(
      [&](const auto& groups) {
        ForEachRun(groups, grouping, begin, end, [&](const auto& coder, int64_t first, int64_t count) {
          const float* HWY_RESTRICT in = values + first;
          uint32_t* HWY_RESTRICT out = codes + first;
          for (int64_t i = 0; i < count; ++i) out[i] = coder.code_of(in[i]);
        });
      },
      coders);
}

void ValueRange(const GroupCoders& coders, const Grouping& grouping, const uint32_t* HWY_RESTRICT codes,
                float* HWY_RESTRICT values, int64_t begin, int64_t end) {
  std::visit(
      [&](const auto& groups) {
        ForEachRun(groups, grouping, begin, end, [&](const auto& coder, int64_t first, int64_t count) {
          const uint32_t* HWY_RESTRICT in = codes + first;
          float* HWY_RESTRICT out = values + first;
          for (int64_t i = 0; i < count; ++i) out[i] = coder.value_of(in[i]);
        });
      },
      coders);
}

bool AnyNan(const float* values, int64_t count) {
  int32_t found = 0;
  for (int64_t i = 0; i < count; ++i) found |= values[i] != values[i] ? 1 : 0;
  return found != 0;
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(CodeRange);
HWY_EXPORT(ValueRange);
HWY_EXPORT(AnyNan);

void code_range(const GroupCoders& coders, const Grouping& grouping, const float* values, uint32_t* codes,
                int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(CodeRange)(coders, grouping, values, codes, begin, end);
}

void value_range(const GroupCoders& coders, const Grouping& grouping, const uint32_t* codes, float* values,
                 int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(ValueRange)(coders, grouping, codes, values, begin, end);
}

int64_t first_nan(const float* values, int64_t count) {
  if (!HWY_DYNAMIC_DISPATCH(AnyNan)(values, count)) return count;
  return std::find_if(values, values + count, [](float value) { return std::isnan(value); }) - values;
}

}  // namespace detent
#endif  // HWY_ONCE

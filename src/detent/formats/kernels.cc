#include "detent/formats/kernels.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/formats/kernels.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "detent/formats/all-inl.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {

using FloatTag = hn::ScalableTag<float>;

/// Fewer elements than a vector, through a buffer: the same code as for whole vectors.
template <class Kernel>
HWY_INLINE void RoundPartial(FloatTag d, const Kernel& kernel, const float* input, float* output,
                             size_t count, uint64_t index) {
  HWY_ALIGN float buffer[hn::MaxLanes(d)] = {};
  std::memcpy(buffer, input, count * sizeof(float));
  hn::Store(kernel(d, hn::Load(d, buffer), index), d, buffer);
  std::memcpy(output, buffer, count * sizeof(float));
}

/// Elements before `output` is aligned to whole vectors.
HWY_INLINE size_t UnalignedCount(FloatTag d, const float* output) {
  const size_t bytes = hn::Lanes(d) * sizeof(float);
  const size_t misaligned = reinterpret_cast<uintptr_t>(output) % bytes;
  return misaligned == 0 ? 0 : (bytes - misaligned) / sizeof(float);
}

template <class Kernel>
HWY_INLINE void RoundRun(FloatTag d, const Kernel kernel, const float* input, float* output, size_t count,
                         uint64_t index, bool stream) {
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  if (stream) {
    i = std::min(count, UnalignedCount(d, output));
    if (i > 0) RoundPartial(d, kernel, input, output, i, index);
    for (; i + lanes <= count; i += lanes)
      hn::Stream(kernel(d, hn::LoadU(d, input + i), index + i), d, output + i);
  } else {
    for (; i + lanes <= count; i += lanes)
      hn::StoreU(kernel(d, hn::LoadU(d, input + i), index + i), d, output + i);
  }
  if (i < count) RoundPartial(d, kernel, input + i, output + i, count - i, index + i);
}

void SimulateRange(const GroupParameters& parameters, const Grouping& grouping, const float* input,
                   float* output, int64_t begin, int64_t end, bool stream) {
  const FloatTag d;
  std::visit(
      [&]<class P>(const std::vector<P>& groups) {
        if constexpr (requires(const P& of_group) { of_group.unsaturated; }) {
          for (int64_t i = begin; i < end;) {
            const int64_t run_end = std::min({end, grouping.end_of_run(i), (i | 0xFFFFFFFF) + 1});
            const auto& group = groups[static_cast<size_t>(grouping.group_of(i))];
            const auto round_run = [&](const auto& kernel) HWY_ATTR {
              RoundRun(d, kernel, input + (i - begin), output + (i - begin), static_cast<size_t>(run_end - i),
                       static_cast<uint64_t>(i), stream);
            };
            const auto kernel = MakeKernel(d, group, static_cast<uint64_t>(i));
            if constexpr (requires { kernel.Specialise(round_run); }) {
              kernel.Specialise(round_run);
            } else {
              round_run(kernel);
            }
            i = run_end;
          }
        }
      },
      parameters);
  if (stream) hwy::FlushStream();
}

void StreamRange(const float* values, float* output, int64_t count) {
  const auto as_is = [](FloatTag /*d*/, hn::Vec<FloatTag> x, uint64_t /*index*/) HWY_ATTR { return x; };
  RoundRun(FloatTag(), as_is, values, output, static_cast<size_t>(count), 0, true);
}

const char* TargetName() { return hwy::TargetName(HWY_TARGET); }

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(SimulateRange);
HWY_EXPORT(StreamRange);
HWY_EXPORT(TargetName);

void simulate_range(const GroupParameters& parameters, const Grouping& grouping, const float* input,
                    float* output, int64_t begin, int64_t end, bool stream) {
  HWY_DYNAMIC_DISPATCH(SimulateRange)(parameters, grouping, input, output, begin, end, stream);
}

void stream_range(const float* values, float* output, int64_t count) {
  HWY_DYNAMIC_DISPATCH(StreamRange)(values, output, count);
}

void flush_stream() { hwy::FlushStream(); }

const char* kernel_target() { return HWY_DYNAMIC_DISPATCH(TargetName)(); }

}  // namespace detent
#endif  // HWY_ONCE

#include "detent/kernels/channels_last_sums.h"

#include <algorithm>
#include <array>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/kernels/plane_sums.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/highway.h>

#include "detent/core/fused-inl.h"
#include "detent/kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Outputs that share what is read of a plane.
constexpr int kTogether = 4;
/// Vectors of windows beside each other: sums that registers hold beside these and a weight.
constexpr int most_vectors(int outputs) {
  const int sums = HWY_TARGET <= HWY_AVX3 ? 16 : 8;
  return std::max(sums / outputs, 1) >= 4 ? (outputs == 1 ? 8 : 4) : 2;
}

/// `kVectors` of the windows, `kOutputs` of the outputs.
template <int kOutputs, int kVectors>
void SumStrip(const PlaneSums& s, int64_t output, int64_t first) {
  const Singles d;
  using Vec = hn::VFromD<Singles>;
  constexpr int64_t kLanes = hn::MaxLanes(Singles());
  Vec sums[size_t{kOutputs}][size_t{kVectors}];
  float* const to = s.sums + output * s.windows + first;
#pragma GCC unroll 4
  for (int o = 0; o < kOutputs; ++o) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) sums[o][v] = hn::LoadU(d, to + o * s.windows + v * kLanes);
  }
  const float* plane = s.planes + first;
  const float* weights = s.weights + output;
  for (int64_t c = 0; c < s.channels; ++c, plane += s.plane) {
    for (const int64_t tap : s.taps) {
      Vec x[size_t{kVectors}];
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) x[v] = hn::LoadU(d, plane + tap + v * kLanes);
#pragma GCC unroll 4
      for (int o = 0; o < kOutputs; ++o) {
        const Vec weight = hn::Set(d, weights[o]);
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) sums[o][v] = Fused(d, x[v], weight, sums[o][v]);
      }
      weights += s.outputs;
    }
  }
#pragma GCC unroll 4
  for (int o = 0; o < kOutputs; ++o) {
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sums[o][v], d, to + o * s.windows + v * kLanes);
  }
}

template <int kOutputs>
void SumStrips(const PlaneSums& s, int64_t output) {
  constexpr int64_t kLanes = hn::MaxLanes(Singles());
  constexpr int kMost = most_vectors(kOutputs);
  int64_t first = 0;
  for (; first + kMost * kLanes <= s.windows; first += kMost * kLanes)
    SumStrip<kOutputs, kMost>(s, output, first);
  if constexpr (kMost > 4) {
    for (; first + 4 * kLanes <= s.windows; first += 4 * kLanes) SumStrip<kOutputs, 4>(s, output, first);
  }
  if constexpr (kMost > 2) {
    for (; first + 2 * kLanes <= s.windows; first += 2 * kLanes) SumStrip<kOutputs, 2>(s, output, first);
  }
  for (; first < s.windows; first += kLanes) SumStrip<kOutputs, 1>(s, output, first);
}

void AddPlanes(const PlaneSums& s) {
  constexpr std::array kStrips = {SumStrips<1>, SumStrips<2>, SumStrips<3>, SumStrips<4>};
  for (int64_t output = 0; output < s.outputs; output += kTogether) {
    const int64_t count = std::min<int64_t>(kTogether, s.outputs - output);
    kStrips[static_cast<size_t>(count - 1)](s, output);
  }
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(AddPlanes);

void add_planes(const PlaneSums& sums) { HWY_DYNAMIC_DISPATCH(AddPlanes)(sums); }

}  // namespace detent
#endif  // HWY_ONCE

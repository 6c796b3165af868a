#include "detent/kernels/channels_last_sums.h"

#include <algorithm>
#include <utility>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/kernels/channels_last_sums.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/highway.h>

#include "detent/core/fused-inl.h"
#include "detent/kernels/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Vec = hn::VFromD<Singles>;
constexpr int64_t kLanes = hn::MaxLanes(Singles());

/// Sums that registers hold beside the inputs and the weights: 28 vectors of 32, 12 of 16.
constexpr int most_windows(int vectors) {
  if (HWY_TARGET <= HWY_AVX3) return 14;
  return HWY_TARGET <= HWY_AVX2 ? 12 / vectors : 1;
}

/// Nothing where it does not clamp, for the ends are infinite then. NaN and -0 stay what they are:
/// instructions of x86 for the larger and the smaller give their second operand where it is NaN or both are
/// zeros.
HWY_INLINE Vec Clamped(const SumsEnd& end, Vec sum) {
  const Singles d;
  const Vec low = hn::Set(d, end.low);
  const Vec high = hn::Set(d, end.high);
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_SSE4
  return hn::Min(high, hn::Max(low, sum));
#else
  return hn::IfThenElse(hn::Lt(sum, low), low, hn::IfThenElse(hn::Gt(sum, high), high, sum));
#endif
}

/// `at` is that of the vector's first output.
HWY_INLINE Vec Ended(const SumsEnd& end, Vec sum, int64_t at) {
  const Singles d;
  if (end.bias != nullptr) sum = hn::Add(sum, hn::LoadU(d, end.bias + at));
  if (end.scale != nullptr) sum = Fused(d, sum, hn::LoadU(d, end.scale + at), hn::LoadU(d, end.shift + at));
  return end.clamps ? Clamped(end, sum) : sum;
}

/// Epilogue of the sums of a tile, [window][width].
HWY_NOINLINE void EndTile(const ChannelsLastSums& s, float* sums, int64_t width, int64_t first,
                          int64_t windows) {
  const Singles d;
  for (int64_t i = first; i < first + windows; ++i, sums += width) {
    const float* const other = s.others == nullptr ? nullptr : s.others[i] + s.first_output;
    float* const result = s.results[i] + s.first_output;
    float* const to = s.outputs == width ? result : sums;
    for (int64_t at = 0; at < width; at += kLanes) {
      Vec value = Ended(s.end, hn::LoadU(d, sums + at), at);
      if (other != nullptr) value = Ended(s.last, hn::Add(value, hn::LoadU(d, other + at)), 0);
      hn::StoreU(value, d, to + at);
    }
    if (to != result) std::copy_n(sums, s.outputs, result);
  }
}

template <int kWindows, int kVectors>
using TileSums = Vec[size_t{kWindows}][size_t{kVectors}];

/// Initial sums of a tile; results are prefetched.
template <int kWindows, int kVectors>
HWY_INLINE void BeginTile(const ChannelsLastSums& s, int64_t first, TileSums<kWindows, kVectors>& sums) {
  constexpr int64_t kWindowSums = kVectors * kLanes;
  const Singles d;
#pragma GCC unroll 32
  for (int i = 0; i < kWindows; ++i) {
#pragma GCC unroll 32
    for (int v = 0; v < kVectors; ++v) {
      sums[i][v] = hn::LoadU(d, s.start + v * kLanes);
      __builtin_prefetch(s.results[first + i] + s.first_output + v * kLanes, 1, 3);
    }
  }
  if (s.sums_before != nullptr) {
    const float* const before = s.sums_before + first * kWindowSums;
#pragma GCC unroll 32
    for (int i = 0; i < kWindows; ++i) {
#pragma GCC unroll 32
      for (int v = 0; v < kVectors; ++v) sums[i][v] = hn::LoadU(d, before + i * kWindowSums + v * kLanes);
    }
  }
}

/// The results of a tile, or the sums for those that are added next.
template <int kWindows, int kVectors>
HWY_INLINE void LeaveTile(const ChannelsLastSums& s, int64_t first, TileSums<kWindows, kVectors>& sums) {
  constexpr int64_t kWindowSums = kVectors * kLanes;
  const Singles d;
  const bool is_plain = s.end.bias == nullptr && s.end.scale == nullptr && s.others == nullptr &&
                        s.outputs == kWindowSums && s.sums_after == nullptr;
  if (is_plain) {
    const SumsEnd end = s.end;  // a copy, where no result can lie
#pragma GCC unroll 32
    for (int i = 0; i < kWindows; ++i) {
      float* const to = s.results[first + i] + s.first_output;
#pragma GCC unroll 32
      for (int v = 0; v < kVectors; ++v) hn::StoreU(Clamped(end, sums[i][v]), d, to + v * kLanes);
    }
    return;
  }
  alignas(64) float stored[size_t{kWindows * kWindowSums}];
  float* const to = s.sums_after == nullptr ? stored : s.sums_after + first * kWindowSums;
#pragma GCC unroll 32
  for (int i = 0; i < kWindows; ++i) {
#pragma GCC unroll 32
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sums[i][v], d, to + i * kWindowSums + v * kLanes);
  }
  if (s.sums_after == nullptr) EndTile(s, stored, kWindowSums, first, kWindows);
}

/// The first channel's weights; the tap's own where it is alone.
template <int kVectors, bool kOneTap>
HWY_INLINE const float* FirstWeights(const ChannelsLastSums& s) {
  return s.weights + (kOneTap ? s.taps.front().packed * kVectors * kLanes : 0);
}

template <int kWindows, int kVectors, bool kOneTap>
void SumTile(const ChannelsLastSums& s, int64_t first, const float* next, int64_t next_step) {
  const Singles d;
  TileSums<kWindows, kVectors> sums;
  BeginTile<kWindows, kVectors>(s, first, sums);
  const float* inputs[size_t{kWindows}];
#pragma GCC unroll 32
  for (int i = 0; i < kWindows; ++i)
    inputs[i] = s.windows[first + i] + s.first_channel + (kOneTap ? s.taps.front().at : 0);
  const float* weights = FirstWeights<kVectors, kOneTap>(s);
  const int64_t channel_weights = s.packed_taps * kVectors * kLanes;
  const SumTap* const taps = s.taps.data();
  const int64_t tap_count = kOneTap ? 1 : std::ssize(s.taps);
  for (int64_t c = 0; c < s.channels; ++c, weights += channel_weights) {
    for (int64_t t = 0; t < tap_count; ++t) {
      const int64_t at = kOneTap ? c : taps[t].at + c;
      const float* const tap_weights = kOneTap ? weights : weights + taps[t].packed * kVectors * kLanes;
      // Pointers are read from memory again: those that no register is left for would be kept in vectors,
      // from where they come later than from the cache and at the expense of products.
      asm volatile("" : : "r"(inputs) : "memory");
      Vec factors[size_t{kVectors}];
#pragma GCC unroll 32
      for (int v = 0; v < kVectors; ++v) factors[v] = hn::LoadU(d, tap_weights + v * kLanes);
      __builtin_prefetch(next, 0, 2);
      next += next_step;
#pragma GCC unroll 32
      for (int i = 0; i < kWindows; ++i) {
        const Vec x = hn::Set(d, inputs[i][at]);
#pragma GCC unroll 32
        for (int v = 0; v < kVectors; ++v) sums[i][v] = Fused(d, x, factors[v], sums[i][v]);
      }
    }
  }
  LeaveTile<kWindows, kVectors>(s, first, sums);
}

/// The same of one vector of outputs and windows that are `apart` from each other. A product for each input
/// leaves no time to read where a window begins: four windows share a pointer.
template <int kWindows, int kVectors, bool kOneTap>
void SumEvenTile(const ChannelsLastSums& s, int64_t first, int64_t apart, const float* next,
                 int64_t next_step) {
  constexpr int kShared = 4;
  const Singles d;
  TileSums<kWindows, kVectors> sums;
  BeginTile<kWindows, kVectors>(s, first, sums);
  const float* const input = s.windows[first] + s.first_channel + (kOneTap ? s.taps.front().at : 0);
  const float* weights = FirstWeights<kVectors, kOneTap>(s);
  const int64_t channel_weights = s.packed_taps * kVectors * kLanes;
  const SumTap* const taps = s.taps.data();
  const int64_t tap_count = kOneTap ? 1 : std::ssize(s.taps);
  for (int64_t c = 0; c < s.channels; ++c, weights += channel_weights) {
    for (int64_t t = 0; t < tap_count; ++t) {
      const float* x = input + (kOneTap ? c : taps[t].at + c);
      const float* const tap_weights = kOneTap ? weights : weights + taps[t].packed * kVectors * kLanes;
      Vec factors[size_t{kVectors}];
#pragma GCC unroll 32
      for (int v = 0; v < kVectors; ++v) factors[v] = hn::LoadU(d, tap_weights + v * kLanes);
      __builtin_prefetch(next, 0, 2);
      next += next_step;
#pragma GCC unroll 32
      for (int i = 0; i < kWindows; ++i) {
        const Vec value = hn::Set(d, x[i % kShared * apart]);
#pragma GCC unroll 32
        for (int v = 0; v < kVectors; ++v) sums[i][v] = Fused(d, value, factors[v], sums[i][v]);
        if (i % kShared == kShared - 1) x += kShared * apart;
      }
    }
  }
  LeaveTile<kWindows, kVectors>(s, first, sums);
}

/// How far apart windows are; 0 where that differs.
int64_t distance(const float* const* windows, int64_t count) {
  const int64_t apart = windows[1] - windows[0];
  for (int64_t i = 2; i < count; ++i) {
    if (windows[i] - windows[i - 1] != apart) return 0;
  }
  return apart;
}

using TileFunction = void (*)(const ChannelsLastSums&, int64_t, const float*, int64_t);

template <int kVectors, bool kOneTap, int... kWindows>
constexpr auto TilesOf(std::integer_sequence<int, kWindows...>) {
  return std::array<TileFunction, sizeof...(kWindows)>{SumTile<kWindows + 1, kVectors, kOneTap>...};
}

/// As few tiles as there can be, of about the same size.
template <int kBlocks, bool kOneTap>
void SumTiles(const ChannelsLastSums& s) {
  constexpr int kVectors = kBlocks * static_cast<int>(kSumOutputs / kLanes);
  constexpr int kMost = most_windows(kVectors);
  static constexpr auto kTiles = TilesOf<kVectors, kOneTap>(std::make_integer_sequence<int, kMost>());
  int64_t tiles = (s.count + kMost - 1) / kMost;
  // Each tile brings its share of what comes next. A tile alone waits for its own weights.
  const bool fetches = s.next != nullptr && tiles > 1;
  const float* next = fetches ? s.next : s.weights;
  const int64_t next_step = fetches ? kBlocks * kSumOutputs / tiles : 0;
  for (int64_t first = 0; tiles > 0; --tiles) {
    const int64_t count = (s.count - first + tiles - 1) / tiles;
    if constexpr (kMost > 1) {
      const int64_t apart = count == kMost ? distance(s.windows + first, count) : 0;
      if (apart != 0) {
        SumEvenTile<kMost, kVectors, kOneTap>(s, first, apart, next, next_step);
        next += next_step * s.channels * std::ssize(s.taps);
        first += count;
        continue;
      }
    }
    kTiles[static_cast<size_t>(count - 1)](s, first, next, next_step);
    next += next_step * s.channels * std::ssize(s.taps);
    first += count;
  }
}

void AddChannelsLast(const ChannelsLastSums& s) {
  const bool one_tap = s.taps.size() == 1;
  if (s.blocks == 1) return one_tap ? SumTiles<1, true>(s) : SumTiles<1, false>(s);
  return one_tap ? SumTiles<2, true>(s) : SumTiles<2, false>(s);
}

/// `input` and `weights` are those of the vector's first channel.
template <int kWindows>
HWY_INLINE void AddTaps(const ChannelsLastDepthwise& s, const float* input, const float* weights,
                        int64_t padded, Vec (&sums)[size_t{kWindows}]) {
  const Singles d;
  for (const int64_t tap : s.taps) {
    const Vec factor = hn::LoadU(d, weights);
    weights += padded;
#pragma GCC unroll 8
    for (int i = 0; i < kWindows; ++i)
      sums[i] = Fused(d, hn::LoadU(d, input + tap + i * s.window_step), factor, sums[i]);
  }
}

/// The same of 3 x 3 positions side by side, `kStride` of them between windows: a row of positions is read
/// once for all windows.
template <int kWindows, int kStride>
HWY_INLINE void AddSquare(const ChannelsLastDepthwise& s, const float* input, const float* weights,
                          int64_t padded, Vec (&sums)[size_t{kWindows}]) {
  constexpr int kColumns = (kWindows - 1) * kStride + 3;
  const Singles d;
  const int64_t column = s.taps[1] - s.taps[0];
  for (size_t row = 0; row < 9; row += 3) {
    const float* const x = input + s.taps[row];
    Vec columns[size_t{kColumns}];
#pragma GCC unroll 16
    for (int i = 0; i < kColumns; ++i) columns[i] = hn::LoadU(d, x + i * column);
#pragma GCC unroll 3
    for (int t = 0; t < 3; ++t) {
      const Vec factor = hn::LoadU(d, weights);
      weights += padded;
#pragma GCC unroll 8
      for (int i = 0; i < kWindows; ++i) sums[i] = Fused(d, columns[i * kStride + t], factor, sums[i]);
    }
  }
}

/// Sixteen channels, or the last ones, of `kWindows` windows. `kStride` 0: any positions.
template <int kWindows, int kStride, class Part>
HWY_INLINE void DepthwiseTile(const ChannelsLastDepthwise& s, int64_t channel, int64_t padded, int64_t first,
                              Part part) {
  const Singles d;
  const float* const input = s.input + first * s.window_step + channel;
  float* const result = s.result + first * s.channels + channel;
  for (int64_t offset = 0; offset < kSumOutputs; offset += kLanes) {
    Vec sums[size_t{kWindows}];
#pragma GCC unroll 8
    for (int i = 0; i < kWindows; ++i) sums[i] = hn::LoadU(d, s.start + channel + offset);
    const float* const weights = s.weights + channel + offset;
    if constexpr (kStride == 0) {
      AddTaps<kWindows>(s, input + offset, weights, padded, sums);
    } else {
      AddSquare<kWindows, kStride>(s, input + offset, weights, padded, sums);
    }
#pragma GCC unroll 8
    for (int i = 0; i < kWindows; ++i) {
      part.Store(Ended(s.end, sums[i], channel + offset), d, result + i * s.channels + offset,
                 static_cast<size_t>(offset));
    }
  }
}

template <int kWindows, int kStride>
void DepthwiseWindows(const ChannelsLastDepthwise& s, int64_t padded, int64_t first) {
  int64_t channel = 0;
  for (; channel + kSumOutputs <= s.channels; channel += kSumOutputs)
    DepthwiseTile<kWindows, kStride>(s, channel, padded, first, WholeSixteen());
  if (channel == s.channels) return;
  const FirstOfSixteen last{static_cast<size_t>(s.channels - channel)};
  DepthwiseTile<kWindows, kStride>(s, channel, padded, first, last);
}

template <int kWindows, int kStride>
int64_t DepthwiseTiles(const ChannelsLastDepthwise& s, int64_t first) {
  const int64_t padded = (s.channels + kSumOutputs - 1) / kSumOutputs * kSumOutputs;
  for (; first + kWindows <= s.windows; first += kWindows)
    DepthwiseWindows<kWindows, kStride>(s, padded, first);
  return first;
}

/// Windows whose sums, positions and weights registers hold.
template <int kStride>
void AddDepthwiseOf(const ChannelsLastDepthwise& s) {
  constexpr int kMost = HWY_TARGET <= HWY_AVX3 && kStride == 1 ? 7 : 4;
  int64_t first = DepthwiseTiles<kMost, kStride>(s, 0);
  if constexpr (kMost > 4) first = DepthwiseTiles<4, kStride>(s, first);
  first = DepthwiseTiles<2, kStride>(s, first);
  DepthwiseTiles<1, kStride>(s, first);
}

void AddDepthwise(const ChannelsLastDepthwise& s) {
  const int64_t column = s.taps.size() == 9 ? s.taps[1] - s.taps[0] : 0;
  bool is_square = column > 0;
  for (size_t row = 0; is_square && row < 9; row += 3)
    is_square = s.taps[row + 1] == s.taps[row] + column && s.taps[row + 2] == s.taps[row] + 2 * column;
  if (is_square && s.window_step == column) return AddDepthwiseOf<1>(s);
  if (is_square && s.window_step == 2 * column) return AddDepthwiseOf<2>(s);
  AddDepthwiseOf<0>(s);
}

void EndSums(const SumsEnd& end, const float* values, int64_t channels, int64_t positions, float* results) {
  for (int64_t i = 0; i < positions; ++i, values += channels, results += channels) {
    ForEachSixteen(static_cast<size_t>(channels), [&](size_t first, auto part) HWY_ATTR {
      const Singles d;
      for (size_t v = 0; v < kSumLanes; v += hn::MaxLanes(d)) {
        const size_t at = first + v;
        part.Store(Ended(end, part.Load(d, values + at, v, 0), static_cast<int64_t>(at)), d, results + at, v);
      }
    });
  }
}

void EndPlanes(const SumsEnd& end, float* sums, int64_t count, int64_t outputs) {
  const Singles d;
  if (end.bias == nullptr && end.scale == nullptr && !end.clamps) return;
  for (int64_t output = 0; output < outputs; ++output, sums += count) {
    const Vec bias = hn::Set(d, end.bias == nullptr ? 0 : end.bias[output]);
    const Vec scale = hn::Set(d, end.scale == nullptr ? 0 : end.scale[output]);
    const Vec shift = hn::Set(d, end.scale == nullptr ? 0 : end.shift[output]);
    for (int64_t i = 0; i < count; i += kLanes) {
      Vec sum = hn::LoadU(d, sums + i);
      if (end.bias != nullptr) sum = hn::Add(sum, bias);
      if (end.scale != nullptr) sum = Fused(d, sum, scale, shift);
      hn::StoreU(end.clamps ? Clamped(end, sum) : sum, d, sums + i);
    }
  }
}

void AddValues(const SumsEnd& end, const float* a, const float* b, int64_t count, float* result) {
  MapSingles(a, result, static_cast<size_t>(count),
             [&](Vec value, auto place) HWY_ATTR { return Ended(end, hn::Add(value, place(b)), 0); });
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(AddChannelsLast);
HWY_EXPORT(AddDepthwise);
HWY_EXPORT(EndPlanes);
HWY_EXPORT(EndSums);
HWY_EXPORT(AddValues);

void add_channels_last(const ChannelsLastSums& sums) { HWY_DYNAMIC_DISPATCH(AddChannelsLast)(sums); }

void add_channels_last_depthwise(const ChannelsLastDepthwise& sums) {
  HWY_DYNAMIC_DISPATCH(AddDepthwise)(sums);
}

void end_planes(const SumsEnd& end, float* sums, int64_t count, int64_t outputs) {
  HWY_DYNAMIC_DISPATCH(EndPlanes)(end, sums, count, outputs);
}

void end_sums(const SumsEnd& end, const float* values, int64_t channels, int64_t positions, float* results) {
  HWY_DYNAMIC_DISPATCH(EndSums)(end, values, channels, positions, results);
}

void add_values(const SumsEnd& end, const float* a, const float* b, int64_t count, float* result) {
  HWY_DYNAMIC_DISPATCH(AddValues)(end, a, b, count, result);
}

}  // namespace detent
#endif  // HWY_ONCE

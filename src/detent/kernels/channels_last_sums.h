#pragma once

#include <cstdint>
#include <limits>
#include <span>

namespace detent {

// The sums of sums.h, in the same order and so with the same bits, for channels-last values: vectors run over
// outputs, and the epilogue runs while a sum is in a register.

/// Epilogue of sums, element by element. Pointers are those of the first output, nullptr: nothing; as many
/// numbers are read as outputs are computed together, kSumOutputs or twice as many.
struct SumsEnd {
  const float* bias = nullptr;  // added
  const float* scale = nullptr;
  const float* shift = nullptr;  // sum * scale + shift, rounded once
  bool clamps = false;           // NaN and -0 stay what they are
  float low = -std::numeric_limits<float>::infinity();
  float high = std::numeric_limits<float>::infinity();

  SumsEnd from(int64_t output) const {
    const auto at = [&](const float* p) { return p == nullptr ? nullptr : p + output; };
    SumsEnd end = *this;
    end.bias = at(bias);
    end.scale = at(scale);
    end.shift = at(shift);
    return end;
  }
};

/// Outputs that a vector holds, or several of them; arrays of outputs are filled up to a multiple.
inline constexpr int64_t kSumOutputs = 16;

/// A tap: its offset from the first, and the packed weights it uses.
struct SumTap {
  int64_t at;
  int64_t packed;
};

/// Some outputs of some windows.
struct ChannelsLastSums {
  const float* const* windows;  // of each channel 0 at its first position
  float* const* results;        // of each output 0
  int64_t count;                // of windows
  std::span<const SumTap> taps;
  int64_t channels;  // in their order, of each all taps
  int64_t first_channel = 0;
  const float* weights;  // [channel][packed tap][16 * blocks]
  int64_t packed_taps;
  int64_t blocks;   // 1 or 2
  int64_t outputs;  // at most 16 * blocks
  int64_t first_output = 0;
  const float* start;  // what sums begin with
  SumsEnd end;
  /// Addends of the results of each window, from output 0 on, and the epilogue of these sums; nullptr:
  /// nothing. As many values are read as outputs are computed together.
  const float* const* others = nullptr;
  SumsEnd last = {};
  /// Where some channels at a time are added: [window][16 * blocks], the sums that others left, and instead
  /// of results those that these leave.
  const float* sums_before = nullptr;
  float* sums_after = nullptr;
  /// Weights to prefetch meanwhile, as many as these.
  const float* next = nullptr;
};
void add_channels_last(const ChannelsLastSums& sums);

/// A window of each channel by itself, `windows` of them side by side. Up to 15 values past the last
/// channel of a position are read. Windows of 3 x 3 positions side by side share what they read.
struct ChannelsLastDepthwise {
  const float* input;
  int64_t window_step;
  int64_t windows;
  std::span<const int64_t> taps;
  const float* weights;  // [tap][channels, filled up]
  int64_t channels;
  const float* start;
  SumsEnd end;
  float* result;  // windows follow each other
};
void add_channels_last_depthwise(const ChannelsLastDepthwise& sums);

/// The same sums where a group has too few outputs to fill a vector: vectors run over windows instead, whose
/// positions lie next to each other in planes, one a channel. Each sum is added to in the same order, and so
/// has the same bits.
struct PlaneSums {
  const float* planes;            // the first channel's, at the first position of the first window
  int64_t plane;                  // from a channel to the next
  int64_t channels;               // in their order, of each all taps
  std::span<const int64_t> taps;  // in a plane, from the first position of a window
  const float* weights;           // [channel][tap][output]
  int64_t outputs;
  int64_t windows;  // a multiple of kSumOutputs, which are read and added to
  float* sums;      // [output][windows]
};
void add_planes(const PlaneSums& sums);

/// Applies SumsEnd to `outputs` planes of `count` values each, a multiple of kSumOutputs, in place.
void end_planes(const SumsEnd& end, float* sums, int64_t count, int64_t outputs);

/// Applies SumsEnd to positions of `channels` values, in place or elsewhere.
void end_sums(const SumsEnd& end, const float* values, int64_t channels, int64_t positions, float* results);

/// result = a + b, clamped as `end` says.
void add_values(const SumsEnd& end, const float* a, const float* b, int64_t count, float* result);

}  // namespace detent

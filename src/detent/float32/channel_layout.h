#pragma once

#include <cstdint>

namespace detent {

// Between planes of positions, one a channel, and positions of adjacent channels.

/// to[x * channels + c] = from[c * plane + x], x < `positions`.
void channels_to_last(const float* from, int64_t plane, int64_t channels, int64_t positions, float* to);

/// to[c * plane + x] = from[x * channels + c], x < `positions`.
void channels_to_front(const float* from, int64_t channels, int64_t positions, float* to, int64_t plane);

}  // namespace detent

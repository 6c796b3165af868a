#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "detent/graph/connections.h"
#include "detent/inference/windows.h"

namespace detent {

/// Windows of a layer of one or two dimensions, and the channels that they read.
struct Planes {
  WindowDimension down;
  WindowDimension across;
  int64_t channels;       // of the input
  int64_t group_inputs;   // channels that an output's weights see
  int64_t group_outputs;  // outputs that see the same

  int64_t positions() const { return down.count * across.count; }
};

/// The windows of a row that read what the row has, from `begin` on and before `end`: those before and after
/// read the padding. `offset` is the place that the first window reads.
struct WindowsInside {
  int64_t begin;
  int64_t end;

  WindowsInside(int64_t offset, const WindowDimension& across)
      : begin(std::min(across.count, offset < 0 ? (-offset + across.stride - 1) / across.stride : 0)),
        end(std::clamp(offset < across.size ? (across.size - 1 - offset) / across.stride + 1 : 0, begin,
                       across.count)) {}
};

/// Adds Connections::sum of an output, without its bias, at all positions at once: the same products in the
/// same order. `input` are the channels that the output's weights see.
void add_plane(std::span<const Connections::Connection> connections, const Planes& planes, const float* input,
               double* sums);

}  // namespace detent

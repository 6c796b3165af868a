#pragma once

#include <vector>

#include "detent/engine/step.h"

namespace detent {

/// Results whose windows reach the input with the same taps, which are some adjacent ones in each dimension:
/// `window` has these alone, and needs no border.
struct WindowRegion {
  ResultGrid grid;
  WindowShape window;
  FirstTap first_tap;

  int64_t results(const Place& out) const { return grid.planes(out) * grid.rows(out) * grid.columns(out); }
};

/// The regions that a layer's results consist of, where leaving out the taps that meet the border alone saves
/// more than short rows of windows cost: large dilations, and inputs smaller than the window. Else empty.
std::vector<WindowRegion> window_regions(const WindowShape& window, const Place& in, const Place& out,
                                         int64_t weight_bytes);

}  // namespace detent

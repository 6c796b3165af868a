#include "detent/engine/plan/window_regions.h"

#include <algorithm>
#include <tuple>

namespace detent {
namespace {

/// A layer's window in one dimension.
struct WindowDim {
  int64_t inputs, results, taps, stride, padding, dilation;
};

/// Results [first, end) of a dimension, which `taps` taps from `first_tap` on reach.
struct DimPart {
  int64_t first, end;
  int64_t first_tap, taps;

  /// As many as none of the others, from the first of these taps on.
  int64_t padding(const WindowDim& dim) const { return dim.padding - first_tap * dim.dilation; }
};

/// Tap k of result o lies at o * stride - padding + k * dilation.
std::vector<DimPart> parts_of(const WindowDim& dim) {
  std::vector<DimPart> parts;
  for (int64_t o = 0; o < dim.results; ++o) {
    const auto taps_before = [&](int64_t place) {  // that lie before it
      const int64_t distance = place - (o * dim.stride - dim.padding);
      return std::clamp<int64_t>((distance + dim.dilation - 1) / dim.dilation, 0, dim.taps);
    };
    const int64_t first = taps_before(0);
    const int64_t taps = taps_before(dim.inputs) - first;
    if (!parts.empty() && parts.back().first_tap == first && parts.back().taps == taps) {
      ++parts.back().end;
    } else {
      parts.push_back({o, o + 1, first, taps});
    }
  }
  return parts;
}

/// Windows that take as long as a tap of so many. A tile of 14 waits for products, one of fewer than about 6
/// for its weights from the cache; weights that lie beyond it come once for some hundred windows, and take as
/// long as 28.
int64_t steps_of(int64_t windows, bool weights_are_near) {
  constexpr int64_t kTileWindows = 14;
  constexpr int64_t kLeastOfTile = 6;
  constexpr int64_t kPassWindows = 112;
  constexpr int64_t kLeastOfPass = 28;
  const auto times = [&](int64_t at_once) { return (windows + at_once - 1) / at_once; };
  const int64_t waiting =
      weights_are_near ? times(kTileWindows) * kLeastOfTile : times(kPassWindows) * kLeastOfPass;
  return std::max(windows, waiting);
}

}  // namespace

std::vector<WindowRegion> window_regions(const WindowShape& window, const Place& in, const Place& out,
                                         int64_t weight_bytes) {
  constexpr double kMostOfAll = 0.8;
  constexpr int64_t kNear = 1 << 20;  // bytes that a second-level cache holds
  const bool are_near = weight_bytes <= kNear;
  const WindowDim depth = {in.depth(),      out.depth(),      window.depth,
                           window.stride_z, window.padding_z, window.dilation_z};
  const WindowDim height = {in.height(),     out.height(),     window.height,
                            window.stride_y, window.padding_y, window.dilation_y};
  const WindowDim width = {in.width(),      out.width(),      window.width,
                           window.stride_x, window.padding_x, window.dilation_x};
  const int64_t samples = out.images() / std::max<int64_t>(out.depth(), 1);
  std::vector<WindowRegion> regions;
  int64_t steps = 0;
  for (const DimPart& z : parts_of(depth)) {
    for (const DimPart& y : parts_of(height)) {
      for (const DimPart& x : parts_of(width)) {
        WindowRegion region{{}, window, {z.first_tap, y.first_tap, x.first_tap}};
        region.grid = {.first_z = z.first,
                       .first_y = y.first,
                       .first_x = x.first,
                       .end_z = z.end,
                       .end_y = y.end,
                       .end_x = x.end};
        WindowShape& own = region.window;
        std::tie(own.depth, own.height, own.width) = std::tuple(z.taps, y.taps, x.taps);
        // The first result of the region is window 0 of its own.
        own.padding_z = z.padding(depth) - z.first * window.stride_z;
        own.padding_y = y.padding(height) - y.first * window.stride_y;
        own.padding_x = x.padding(width) - x.first * window.stride_x;
        steps += own.positions() * steps_of(samples * region.results(out), are_near);
        regions.push_back(region);
      }
    }
  }
  const int64_t all = window.positions() * steps_of(out.images() * out.height() * out.width(), are_near);
  return static_cast<double>(steps) < kMostOfAll * static_cast<double>(all) ? regions
                                                                            : std::vector<WindowRegion>();
}

}  // namespace detent

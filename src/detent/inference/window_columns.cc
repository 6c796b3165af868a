#include "detent/inference/windows.h"

#include "detent/graph/operators.h"

namespace detent {
namespace {

std::vector<WindowDimension> dimensions(const Node& node, const Shape& input, const Shape& output) {
  const size_t count = input.size() - 2;
  const Shape& kernel = node.find_parameter("weight")->tensor.shape();
  const auto stride = integers_attribute(node, "stride", count);
  const auto padding = integers_attribute(node, "padding", count);
  const auto dilation = integers_attribute(node, "dilation", count);
  std::vector<WindowDimension> result;
  for (size_t i = 0; i < count; ++i)
    result.push_back({input[i + 2], output[i + 2], kernel[i + 2], stride[i], padding[i], dilation[i]});
  return result;
}

/// Where in a channel a tap of a window lies; -1 in the padding.
int64_t place_of(const std::vector<WindowDimension>& dimensions, int64_t tap, int64_t window) {
  int64_t place = 0;
  int64_t step = 1;
  for (auto d = dimensions.rbegin(); d != dimensions.rend(); ++d) {
    const int64_t at = d->place(window % d->count, tap % d->kernel);
    if (at < 0 || at >= d->size) return -1;
    place += at * step;
    step *= d->size;
    window /= d->count;
    tap /= d->kernel;
  }
  return place;
}

}  // namespace

WindowColumns::WindowColumns(const Node& node, const Shape& input, const Shape& output)
    : taps_(1), windows_(element_count({output.begin() + 2, output.end()})) {
  const std::vector<WindowDimension> of = dimensions(node, input, output);
  for (const WindowDimension& dimension : of) taps_ *= dimension.kernel;
  places_.reserve(static_cast<size_t>(taps_ * windows_));
  for (int64_t tap = 0; tap < taps_; ++tap) {
    for (int64_t window = 0; window < windows_; ++window) places_.push_back(place_of(of, tap, window));
  }
}

void WindowColumns::read(const int32_t* channel, int64_t tap, int64_t first, int64_t count,
                         int32_t zero_point, int32_t* to) const {
  const int64_t* const places = places_.data() + tap * windows_ + first;
  for (int64_t i = 0; i < count; ++i) to[i] = places[i] < 0 ? 0 : channel[places[i]] - zero_point;
}

}  // namespace detent

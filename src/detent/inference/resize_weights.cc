#include "detent/inference/resize_weights.h"

#include <algorithm>
#include <cmath>

#include "detent/graph/operators.h"

namespace detent {
namespace {

/// The place in the input that element i of the result stands for. The length of the result is that before it
/// was rounded down.
double source_place(const ResizedAxis& axis, int64_t i, const std::string& coordinates) {
  const auto x = static_cast<double>(i);
  const auto from = static_cast<double>(axis.from);
  const auto to = static_cast<double>(axis.to);
  const double length = axis.scale * from;
  const double half_pixel = (x + 0.5) / axis.scale - 0.5;
  if (coordinates == "asymmetric") return x / axis.scale;
  if (coordinates == "tf_half_pixel_for_nn") return (x + 0.5) / axis.scale;
  if (coordinates == "pytorch_half_pixel") return axis.to > 1 ? half_pixel : 0;
  if (coordinates == "align_corners") return length == 1 || axis.to == 1 ? 0 : x * (from - 1) / (length - 1);
  if (coordinates == "half_pixel_symmetric") return from / 2 * (1 - to / length) + half_pixel;
  if (coordinates == "half_pixel") return half_pixel;
  if (axis.to == 1) return (axis.start + axis.end) * (from - 1) / 2;
  return axis.start * (from - 1) + x * (axis.end - axis.start) * (from - 1) / (to - 1);
}

/// The same in float32, step by step as ONNX Runtime has it: where the exact place is halfway between two
/// elements, or is one, how it is computed chooses the nearest.
float source_place_in_float32(const ResizedAxis& axis, int64_t i, const std::string& coordinates) {
  const auto x = static_cast<float>(i);
  const auto scale = static_cast<float>(axis.scale);
  const auto from = static_cast<float>(axis.from);
  const auto to = static_cast<float>(axis.to);
  if (coordinates == "asymmetric") return x / scale;
  if (coordinates == "tf_half_pixel_for_nn") return (x + 0.5F) / scale;
  if (coordinates == "pytorch_half_pixel") return axis.to > 1 ? (x + 0.5F) / scale - 0.5F : 0;
  if (coordinates == "half_pixel") return (x + 0.5F) / scale - 0.5F;
  if (coordinates == "half_pixel_symmetric") {
    const float offset = from / 2 * (1 - to / (scale * from));
    const double half_pixel = (static_cast<double>(x) + 0.5) / static_cast<double>(scale) - 0.5;
    return static_cast<float>(static_cast<double>(offset) + half_pixel);
  }
  const double length = axis.scale * static_cast<double>(axis.from);
  if (coordinates == "align_corners")
    return length == 1 || axis.to == 1 ? 0 : x * (from - 1) / (static_cast<float>(length) - 1);
  const auto start = static_cast<float>(axis.start);
  const auto end = static_cast<float>(axis.end);
  if (axis.to == 1) return static_cast<float>(0.5 * static_cast<double>((start + end) * (from - 1)));
  return start * (from - 1) + x * (end - start) * (from - 1) / (to - 1);
}

double nearest_place(double place, const ResizedAxis& axis, const std::string& rounding) {
  if (rounding == "floor") return std::floor(place);
  if (rounding == "ceil") return std::ceil(place);
  if (rounding == "simple") return axis.scale < 1 ? std::ceil(place) : std::floor(place);
  return rounding == "round_prefer_ceil" ? std::floor(place + 0.5) : std::ceil(place - 0.5);
}

/// 1 at 0 and 0 at all other whole numbers; Keys 1981, with the slope `a` at 1.
double cubic_kernel(double x, double a) {
  x = std::fabs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((x - 5) * x + 8) * a * x - 4 * a : 0;
}

int64_t as_index(double place) {
  constexpr double kMost = 1LL << 40;
  return static_cast<int64_t>(std::clamp(place, -kMost, kMost));
}

}  // namespace

ResizeWeights::ResizeWeights(const Node& node, const ResizedAxis& axis)
    : axis_(axis),
      mode_(choice_attribute(node, "mode")),
      coordinates_(choice_attribute(node, "coordinates")),
      rounding_(choice_attribute(node, "nearest")),
      cubic_a_(number_attribute(node, "cubic_coeff_a")),
      excludes_(boolean_attribute(node, "exclude_outside")),
      antialias_(boolean_attribute(node, "antialias")) {}

double ResizeWeights::place_of(int64_t i) const {
  if (mode_ == "nearest") return static_cast<double>(source_place_in_float32(axis_, i, coordinates_));
  return source_place(axis_, i, coordinates_);
}

ResizeTaps ResizeWeights::at(int64_t i) const {
  const double place = place_of(i);
  ResizeTaps taps = mode_ == "nearest" ? ResizeTaps{{as_index(nearest_place(place, axis_, rounding_))}, {1}}
                                       : around(place);
  for (int64_t& tap : taps.places) tap = std::clamp<int64_t>(tap, 0, axis_.from - 1);
  return taps;
}

bool ResizeWeights::is_outside(int64_t i) const {
  const double place = place_of(i);
  return coordinates_ == "tf_crop_and_resize" &&
         !(place >= 0 && place <= static_cast<double>(axis_.from - 1));
}

/// Weights of two neighbours, or four, or more where the kernel is stretched over what one element stands
/// for.
ResizeTaps ResizeWeights::around(double place) const {
  const bool is_cubic = mode_ == "cubic";
  const double stretch = antialias_ ? std::min(axis_.scale, 1.0) : 1;
  const int64_t first = as_index(std::floor((is_cubic ? -2 : -1) / stretch)) + 1;
  const int64_t left = as_index(std::ceil(place)) - 1;
  ResizeTaps taps;
  double sum = 0;
  for (int64_t offset = first; offset <= 1 - first; ++offset) {
    const double distance = (static_cast<double>(left + offset) - place) * stretch;
    const double weight =
        is_cubic ? cubic_kernel(distance, cubic_a_) : std::clamp(1 - std::fabs(distance), 0.0, 1.0);
    const bool outside = left + offset < 0 || left + offset >= axis_.from;
    taps.places.push_back(left + offset);
    taps.weights.push_back(excludes_ && outside ? 0 : weight);
    sum += taps.weights.back();
  }
  if (excludes_ || antialias_) {
    for (double& weight : taps.weights) weight /= sum;
  }
  return taps;
}

bool is_copy(const std::vector<ResizeTaps>& taps, int64_t from) {
  for (size_t i = 0; i < taps.size(); ++i) {
    for (size_t t = 0; t < taps[i].places.size(); ++t) {
      const bool own = taps[i].places[t] == static_cast<int64_t>(i);
      if (taps[i].weights[t] != 0 && !own) return false;
    }
  }
  return static_cast<int64_t>(taps.size()) == from;
}

}  // namespace detent

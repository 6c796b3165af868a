#include <algorithm>
#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include "detent/core/error.h"
#include "detent/execution/evaluators/evaluator.h"
#include "detent/graph/operators.h"
#include "detent/graph/resize.h"

namespace detent {
namespace {

/// The elements of the input that an element of the result is made of.
struct Taps {
  std::vector<int64_t> places;
  std::vector<double> weights;
};

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

class AxisWeights {
 public:
  AxisWeights(const Node& node, const ResizedAxis& axis)
      : axis_(axis),
        mode_(choice_attribute(node, "mode")),
        coordinates_(choice_attribute(node, "coordinates")),
        rounding_(choice_attribute(node, "nearest")),
        cubic_a_(number_attribute(node, "cubic_coeff_a")),
        excludes_(boolean_attribute(node, "exclude_outside")),
        antialias_(boolean_attribute(node, "antialias")) {}

  Taps at(int64_t i) const {
    const double place = source_place(axis_, i, coordinates_);
    Taps taps =
        mode_ == "nearest" ? Taps{{as_index(nearest_place(place, axis_, rounding_))}, {1}} : around(place);
    for (int64_t& tap : taps.places) tap = std::clamp<int64_t>(tap, 0, axis_.from - 1);
    return taps;
  }

  /// Whether the element stands for a place outside of the input.
  bool is_outside(int64_t i) const {
    const double place = source_place(axis_, i, coordinates_);
    return coordinates_ == "tf_crop_and_resize" &&
           !(place >= 0 && place <= static_cast<double>(axis_.from - 1));
  }

 private:
  static int64_t as_index(double place) {
    constexpr double kMost = 1LL << 40;
    return static_cast<int64_t>(std::clamp(place, -kMost, kMost));
  }

  /// Weights of two neighbours, or four, or more where the kernel is stretched over what one element stands
  /// for.
  Taps around(double place) const {
    const bool is_cubic = mode_ == "cubic";
    const double stretch = antialias_ ? std::min(axis_.scale, 1.0) : 1;
    const auto first = static_cast<int64_t>(std::floor((is_cubic ? -2 : -1) / stretch)) + 1;
    const int64_t left = as_index(std::ceil(place)) - 1;
    Taps taps;
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

  ResizedAxis axis_;
  std::string mode_;
  std::string coordinates_;
  std::string rounding_;
  double cubic_a_;
  bool excludes_;
  bool antialias_;
};

at::Tensor along(const at::Tensor& list, int64_t rank, size_t dim) {
  std::vector<int64_t> shape(static_cast<size_t>(rank), 1);
  shape[dim] = list.numel();
  return list.reshape(shape);
}

/// Whether every element of the result is that of the input at its place.
bool is_copy(const std::vector<Taps>& taps, int64_t from) {
  for (size_t i = 0; i < taps.size(); ++i) {
    for (size_t t = 0; t < taps[i].places.size(); ++t) {
      const bool own = taps[i].places[t] == static_cast<int64_t>(i);
      if (taps[i].weights[t] != 0 && !own) return false;
    }
  }
  return static_cast<int64_t>(taps.size()) == from;
}

at::Tensor interpolated(const at::Tensor& x, size_t dim, const std::vector<Taps>& taps) {
  if (taps.empty() || is_copy(taps, x.size(static_cast<int64_t>(dim))))
    return x.narrow(static_cast<int64_t>(dim), 0, static_cast<int64_t>(taps.size()));
  at::Tensor sum;
  for (size_t t = 0; t < taps.front().places.size(); ++t) {
    std::vector<int64_t> places;
    std::vector<double> weights;
    for (const Taps& of_element : taps) {
      places.push_back(of_element.places[t]);
      weights.push_back(of_element.weights[t]);
    }
    at::Tensor part = at::index_select(x, static_cast<int64_t>(dim), at::tensor(places, at::kLong));
    if (taps.front().places.size() == 1) return part;
    part = part * along(at::tensor(weights, at::kDouble).to(x.scalar_type()), x.dim(), dim);
    sum = sum.defined() ? sum + part : part;
  }
  return sum;
}

std::vector<double> numbers(const Evaluation& e, size_t index) {
  const at::Tensor list = e.tensor(index).to(at::kDouble).contiguous();
  return {list.data_ptr<double>(), list.data_ptr<double>() + list.numel()};
}

ResizeRequest request_of(const Evaluation& e) {
  ResizeRequest request;
  if (choice_attribute(e.node, "coordinates") == "tf_crop_and_resize") request.roi = numbers(e, 1);
  if (!e.is_absent(2)) request.scales = numbers(e, 2);
  if (!e.is_absent(3)) request.sizes = e.integers(3);
  return request;
}

/// Dimension after dimension.
Results evaluate_resize(const Evaluation& e) {
  at::Tensor x = e.tensor(0);
  const Shape shape = x.sizes().vec();
  at::Tensor outside;
  for (const ResizedAxis& axis : resized_axes(e.node, shape, request_of(e))) {
    const AxisWeights weights(e.node, axis);
    std::vector<Taps> taps;
    std::vector<int64_t> is_outside;
    for (int64_t i = 0; i < axis.to; ++i) {
      taps.push_back(weights.at(i));
      is_outside.push_back(weights.is_outside(i) ? 1 : 0);
    }
    x = interpolated(x, axis.dim, taps);
    if (std::ranges::find(is_outside, 1) == is_outside.end()) continue;
    const at::Tensor mask = along(at::tensor(is_outside, at::kLong), x.dim(), axis.dim).to(at::kBool);
    outside = outside.defined() ? outside.logical_or(mask) : mask;
  }
  if (!outside.defined()) return x;
  return at::where(outside, at::full({}, number_attribute(e.node, "extrapolation_value"), x.options()), x);
}

}  // namespace

EvaluatorList resize_evaluators() { return {{"resize", evaluate_resize}}; }

}  // namespace detent

#include <algorithm>
#include <array>
#include <numeric>

#include <ATen/ops/tensor.h>

#include "detent/core/error.h"
#include "detent/execution/evaluators/evaluator.h"
#include "detent/graph/operators.h"

namespace detent {
namespace {

/// Low and high end in two dimensions.
struct Box {
  std::array<float, 2> low;
  std::array<float, 2> high;

  float area() const { return (high[0] - low[0]) * (high[1] - low[1]); }
};

/// From any two opposite corners, or from centre and size.
Box box_of(const float* numbers, bool center_point) {
  if (center_point) {
    const float half[] = {numbers[2] / 2, numbers[3] / 2};
    return {{numbers[0] - half[0], numbers[1] - half[1]}, {numbers[0] + half[0], numbers[1] + half[1]}};
  }
  return {{std::min(numbers[0], numbers[2]), std::min(numbers[1], numbers[3])},
          {std::max(numbers[0], numbers[2]), std::max(numbers[1], numbers[3])}};
}

/// Whether the intersection is more than this share of the union.
bool overlap(const Box& a, const Box& b, float most) {
  float shared = 1;
  for (size_t d = 0; d < 2; ++d)
    shared *= std::max(std::min(a.high[d], b.high[d]) - std::max(a.low[d], b.low[d]), 0.0F);
  const float all = a.area() + b.area() - shared;
  if (a.area() <= 0 || b.area() <= 0 || all <= 0) return false;
  return shared / all > most;
}

struct Limits {
  int64_t boxes = 0;  // of a class
  float overlap = 0;
  bool has_score = false;
  float score = 0;
};

/// The places of the boxes that are kept, the best first; of equal scores the first.
std::vector<int64_t> kept_boxes(const std::vector<Box>& boxes, const float* scores, const Limits& limits) {
  std::vector<int64_t> places;
  for (int64_t i = 0; i < std::ssize(boxes); ++i) {
    if (!limits.has_score || scores[i] > limits.score) places.push_back(i);
  }
  std::ranges::stable_sort(places, std::greater<>(), [&](int64_t i) { return scores[i]; });
  std::vector<int64_t> kept;
  for (const int64_t place : places) {
    if (std::ssize(kept) >= limits.boxes) break;
    const Box& box = boxes[static_cast<size_t>(place)];
    const auto hides = [&](int64_t other) {
      return overlap(box, boxes[static_cast<size_t>(other)], limits.overlap);
    };
    if (std::ranges::none_of(kept, hides)) kept.push_back(place);
  }
  return kept;
}

double number(const Evaluation& e, size_t index, double otherwise) {
  if (e.is_absent(index)) return otherwise;
  return e.as_tensor(index).to(at::kDouble).reshape({-1})[0].item<double>();
}

Results evaluate_suppression(const Evaluation& e) {
  const at::Tensor boxes = e.tensor(0).contiguous();
  const at::Tensor scores = e.tensor(1).contiguous();
  const int64_t count = boxes.size(1);
  const int64_t classes = scores.size(1);
  if (scores.size(0) != boxes.size(0) || scores.size(2) != count || boxes.size(2) != 4)
    fail("got boxes and scores of different numbers");
  constexpr size_t kLeastScore = 4;
  const Limits limits{static_cast<int64_t>(number(e, 2, 0)), static_cast<float>(number(e, 3, 0)),
                      !e.is_absent(kLeastScore), static_cast<float>(number(e, kLeastScore, 0))};
  if (!(limits.overlap >= 0 && limits.overlap <= 1)) fail("input 3 is {}, expected 0 to 1", limits.overlap);
  std::vector<int64_t> rows;
  for (int64_t sample = 0; sample < boxes.size(0); ++sample) {
    std::vector<Box> of_sample;
    for (int64_t i = 0; i < count; ++i) {
      of_sample.push_back(box_of(boxes.data_ptr<float>() + (sample * count + i) * 4,
                                 boolean_attribute(e.node, "center_point_box")));
    }
    for (int64_t c = 0; c < classes; ++c) {
      const float* of_class = scores.data_ptr<float>() + (sample * classes + c) * count;
      for (const int64_t place : kept_boxes(of_sample, of_class, limits))
        rows.insert(rows.end(), {sample, c, place});
    }
  }
  return at::tensor(rows, at::kLong).reshape({-1, 3});
}

}  // namespace

EvaluatorList detection_evaluators() { return {{"non_max_suppression", evaluate_suppression}}; }

}  // namespace detent

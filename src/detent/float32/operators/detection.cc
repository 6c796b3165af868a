#include <algorithm>
#include <array>
#include <functional>

#include "detent/core/convert.h"
#include "detent/float32/float_node.h"
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

double number_input(const FloatNode& n, size_t index, double otherwise) {
  return n.is_absent(index) ? otherwise : to_dtype(n.operand(index), DType::kFloat64).values<double>()[0];
}

Tensor suppressed(const FloatNode& n) {
  const Tensor& boxes = n.tensor(0);
  const Tensor& scores = n.tensor(1);
  const int64_t count = boxes.dim(1);
  const int64_t classes = scores.dim(1);
  if (scores.dim(0) != boxes.dim(0) || scores.dim(2) != count || boxes.dim(2) != 4)
    fail("node \"{}\": got boxes of shape {} and scores of shape {}", n.node.name, shape_text(boxes.shape()),
         shape_text(scores.shape()));
  constexpr size_t kLeastScore = 4;
  const Limits limits{n.is_absent(2) ? 0 : n.integers(2).at(0), static_cast<float>(number_input(n, 3, 0)),
                      !n.is_absent(kLeastScore), static_cast<float>(number_input(n, kLeastScore, 0))};
  if (!(limits.overlap >= 0 && limits.overlap <= 1))
    fail("node \"{}\": input 3 is {}, expected 0 to 1", n.node.name, limits.overlap);
  std::vector<int64_t> rows;
  for (int64_t sample = 0; sample < boxes.dim(0); ++sample) {
    std::vector<Box> of_sample;
    for (int64_t i = 0; i < count; ++i) {
      of_sample.push_back(box_of(boxes.values<float>().data() + (sample * count + i) * 4,
                                 boolean_attribute(n.node, "center_point_box")));
    }
    for (int64_t c = 0; c < classes; ++c) {
      const float* of_class = scores.values<float>().data() + (sample * classes + c) * count;
      for (const int64_t place : kept_boxes(of_sample, of_class, limits))
        rows.insert(rows.end(), {sample, c, place});
    }
  }
  return Tensor::from<int64_t>({std::ssize(rows) / 3, 3}, rows);
}

}  // namespace

FloatOperators box_operators() { return {{"non_max_suppression", suppressed, true}}; }

}  // namespace detent

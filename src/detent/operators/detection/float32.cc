#include <algorithm>
#include <array>
#include <functional>

#include "detent/core/convert.h"
#include "detent/graph/operators.h"
#include "detent/inference/float_node.h"

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

/// Boxes in lists of their ends, so that one is compared with several at once.
class BoxLists {
 public:
  explicit BoxLists(float most_overlap) : most_overlap_(most_overlap) {}

  void add(const Box& box) {
    for (size_t d = 0; d < 2; ++d) {
      low_[d].push_back(box.low[d]);
      high_[d].push_back(box.high[d]);
    }
    areas_.push_back(box.area());
  }
  /// Whether the intersection with one of them is more than its share of the union.
  bool overlap(const Box& box) const {
    constexpr size_t kBlock = 32;
    const float area = box.area();
    if (area <= 0) return false;
    for (size_t begin = 0; begin < areas_.size(); begin += kBlock) {
      if (overlap(box, area, begin, std::min(begin + kBlock, areas_.size()))) return true;
    }
    return false;
  }

 private:
  bool overlap(const Box& box, float area, size_t begin, size_t end) const {
    const float* const low[] = {low_[0].data(), low_[1].data()};
    const float* const high[] = {high_[0].data(), high_[1].data()};
    int found = 0;
    for (size_t i = begin; i < end; ++i) {
      const float height =
          std::max(std::min(box.high[0], high[0][i]) - std::max(box.low[0], low[0][i]), 0.0F);
      const float width = std::max(std::min(box.high[1], high[1][i]) - std::max(box.low[1], low[1][i]), 0.0F);
      const float shared = height * width;
      const float all = area + areas_[i] - shared;
      found |= static_cast<int>(!(areas_[i] <= 0)) & static_cast<int>(!(all <= 0)) &
               static_cast<int>(shared / all > most_overlap_);
    }
    return found != 0;
  }

  float most_overlap_;
  std::array<std::vector<float>, 2> low_;
  std::array<std::vector<float>, 2> high_;
  std::vector<float> areas_;
};

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
  BoxLists others(limits.overlap);
  for (const int64_t place : places) {
    if (std::ssize(kept) >= limits.boxes) break;
    const Box& box = boxes[static_cast<size_t>(place)];
    if (others.overlap(box)) continue;
    kept.push_back(place);
    others.add(box);
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

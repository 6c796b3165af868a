#include "detent/reconstruction/learned_rounding.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "detent/reconstruction/gram_rows.h"

namespace detent {
namespace {

/// The gap between the neighbours of a weight is positive, so the gradient with respect to an offset v has
/// the sign of that with respect to the rounded weight.
class Descent {
 public:
  Descent(const Matrix<double>& gram, const ValueGrid& grid, const Tensor& weight, int64_t row_begin,
          int64_t row_end)
      : rows_(gram, weight, row_begin, row_end),
        next_(rows_.neighbours(grid)),
        offsets_(next_.size(), 0.0F),
        least_(static_cast<size_t>(row_end - row_begin), std::numeric_limits<double>::infinity()) {}

  /// Judges the rounding that the offsets give now, and writes each row that is better than before to
  /// `best`; then moves the offsets by `step`.
  void advance(float step, float* best) {
    const int64_t n = rows_.columns();
    rows_.multiply_differences([&](int64_t element) { return rounded(element); });
    rows_.for_each_row([&](int64_t r) {
      const double error = rows_.error(r);
      if (error < least_[static_cast<size_t>(r)]) {
        least_[static_cast<size_t>(r)] = error;
        for (int64_t i = 0; i < n; ++i) best[r * n + i] = rounded(r * n + i);
      }
      for (int64_t i = 0; i < n; ++i)
        move(offsets_[static_cast<size_t>(r * n + i)], rows_.product(r, i), step);
    });
  }

 private:
  static void move(float& offset, float gradient, float step) {
    const auto sign = static_cast<float>(static_cast<int>(gradient > 0) - static_cast<int>(gradient < 0));
    offset = std::clamp(offset - step * sign, -0.5F, 0.5F);
  }
  float rounded(int64_t element) const {
    const auto at = static_cast<size_t>(element);
    const GridNeighbours& next = next_[at];
    return next.share + offsets_[at] >= 0.5F ? next.high : next.low;
  }

  GramRows rows_;
  std::vector<GridNeighbours> next_;
  std::vector<float> offsets_;
  std::vector<double> least_;
};

}  // namespace

void signround(const Matrix<double>& gram, const ValueGrid& grid, const SignRoundOptions& options,
               Tensor& weight, int64_t row_begin, int64_t row_end) {
  const auto steps = static_cast<double>(options.iterations);
  const double first = options.learning_rate > 0 ? options.learning_rate : 1 / steps;
  choose_better_rows(gram, grid, weight, row_begin, row_end, [&](double /*error*/, Tensor& rounded) {
    Descent descent(gram, grid, weight, row_begin, row_end);
    float* best = rounded.values<float>().data() + row_begin * gram.rows();
    for (int64_t i = 0; i < options.iterations; ++i)
      descent.advance(static_cast<float>(first * (1 - static_cast<double>(i) / steps)), best);
    descent.advance(0, best);
  });
}

}  // namespace detent

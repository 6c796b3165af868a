#include "detent/passes/reconstruction/signround.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "detent/core/parallel.h"
#include "detent/passes/reconstruction/better_rows.h"
#include "detent/passes/reconstruction/grid_neighbours.h"
#include "detent/passes/reconstruction/product.h"

namespace detent {
namespace {

constexpr int64_t kRowsAtOnce = 4;

/// The rows that share a Gram matrix. With d = rounded - exact weights, a row errs by d H d^T, whose gradient
/// is 2 d H; the gap between the neighbours is positive, so the gradient with respect to v has its sign.
class Descent {
 public:
  Descent(const Matrix<double>& gram, const ValueGrid& grid, const Tensor& weight, int64_t row_begin,
          int64_t row_end)
      : n_(gram.rows()),
        weight_(weight.values<float>().data() + row_begin * n_),
        difference_(row_end - row_begin, n_),
        gradient_(row_end - row_begin, n_),
        gram_(n_, n_),
        least_(static_cast<size_t>(row_end - row_begin), std::numeric_limits<double>::infinity()) {
    for (int64_t i = 0; i < n_; ++i) std::copy_n(gram.row(i), n_, gram_.row(i));
    const int64_t count = (row_end - row_begin) * n_;
    for (int64_t i = 0; i < count; ++i)
      next_.push_back(grid_neighbours(grid.values(row_begin * n_ + i), weight_[i]));
    offsets_.assign(static_cast<size_t>(count), 0.0F);
  }

  /// Judges the rounding that the offsets give now, and writes each row that is better than before to
  /// `best`; then moves the offsets by `step`.
  void advance(float step, float* best) {
    for_each_row([&](int64_t r) {
      for (int64_t i = 0; i < n_; ++i) difference_(r, i) = rounded(r * n_ + i) - weight_[r * n_ + i];
    });
    multiply(difference_, gram_, gradient_);
    for_each_row([&](int64_t r) {
      double error = 0;
      for (int64_t i = 0; i < n_; ++i)
        error += static_cast<double>(difference_(r, i)) * static_cast<double>(gradient_(r, i));
      if (error < least_[static_cast<size_t>(r)]) {
        least_[static_cast<size_t>(r)] = error;
        for (int64_t i = 0; i < n_; ++i) best[r * n_ + i] = rounded(r * n_ + i);
      }
      for (int64_t i = 0; i < n_; ++i) move(offsets_[static_cast<size_t>(r * n_ + i)], gradient_(r, i), step);
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
  template <class Body>
  void for_each_row(const Body& body) {
    parallel_for(difference_.rows(), kRowsAtOnce, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) body(r);
    });
  }

  int64_t n_;
  const float* weight_;
  Matrix<float> difference_;
  Matrix<float> gradient_;
  Matrix<float> gram_;
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

#pragma once

#include <cstdint>

#include "detent/core/fields.h"
#include "detent/core/tensor.h"
#include "detent/formats/groups/value_grid.h"
#include "detent/passes/reconstruction/matrix.h"

namespace detent {

struct SignRoundOptions {
  int64_t iterations = 200;
  double learning_rate = 0;  // 0: 1 / iterations

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("iterations", self.iterations, "steps of signed gradient descent a layer", Between{1, 1e6});
    visit("learning_rate", self.learning_rate,
          "first step, as a share of the gap between two values of the format; it falls linearly to 0. "
          "0: 1 / iterations",
          Between{0, 1});
  }
};

/// Rounds the rows [row_begin, row_end) of `weight` (float32, [rows, ...], with n elements a row), in place:
/// each element to the value of `grid` below or above it, by signed gradient descent (Cheng et al. 2023,
/// SignRound, arXiv:2309.05516). An offset v in [-1/2, 1/2] of the gap is added before rounding; each step
/// moves it against the sign of the gradient of the squared error of the outputs, rounding taken for the
/// identity. The best weights on the way are kept, row by row, those rounded to nearest among them. `gram`
/// [n, n]: the mean of x x^T over the inputs that these rows multiply, so that each step sees all samples and
/// nothing is drawn at random.
void signround(const Matrix<double>& gram, const ValueGrid& grid, const SignRoundOptions& options,
               Tensor& weight, int64_t row_begin, int64_t row_end);

}  // namespace detent

#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "detent/core/fields.h"
#include "detent/core/tensor.h"
#include "detent/formats/groups/value_grid.h"
#include "detent/reconstruction/matrix.h"

namespace detent {

struct AdaRoundOptions {
  int64_t iterations = 1000;
  double learning_rate = 0.01;
  double regularization = 10;
  double warm_up = 0.2;
  double beta_begin = 20;
  double beta_end = 2;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("iterations", self.iterations, "steps of the optimizer a layer", Between{1, 1e7});
    visit("learning_rate", self.learning_rate, "of Adam", Between{1e-9, 10});
    visit("regularization", self.regularization,
          "weight of the term that drives each choice to down or up, against the output error relative to "
          "that of rounding to nearest",
          Between{0, 1e6});
    visit("warm_up", self.warm_up, "share of the iterations without that term", Between{0, 1});
    visit("beta_begin", self.beta_begin, "its exponent after warming up", Between{1, 100});
    visit("beta_end", self.beta_end, "its exponent at the end", Between{1, 100});
  }
};

/// 1 - |2 h - 1|^beta: 0 where h is 0 or 1, 1 where it is 1/2.
double rounding_regularizer(double h, double beta);
/// Linear from beta_begin at the end of the warm-up to beta_end at the last iteration; nullopt while warming
/// up.
std::optional<double> regularizer_exponent(const AdaRoundOptions& options, int64_t iteration);

/// Rounds the rows [row_begin, row_end) of `weight` (float32, [rows, ...], with n elements a row), in place:
/// each element to the value of `grid` below or above it, as makes the error of the layer's output small
/// (Nagel et al. 2020, arXiv:2004.10568). `gram` [n, n]: the mean of x x^T over the inputs that these rows
/// multiply, so that error and gradient are exact for all calibration data at every step. A row that comes
/// out worse than rounded to nearest is rounded to nearest.
void adaround(const Matrix<double>& gram, const ValueGrid& grid, const AdaRoundOptions& options,
              Tensor& weight, int64_t row_begin, int64_t row_end);

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

/// Rounds the rows [row_begin, row_end) of `weight`, in place: each to nearest in `grid`, or as `learn`
/// rounds it where the layer's outputs have no larger an error then. `learn` gets the error of rounding to
/// nearest, above 0, and the weight rounded so, of which it replaces these rows. `gram` [n, n]: the mean of x
/// x^T over the inputs of these rows.
void choose_better_rows(const Matrix<double>& gram, const ValueGrid& grid, Tensor& weight, int64_t row_begin,
                        int64_t row_end,
                        const std::function<void(double nearest_error, Tensor& rounded)>& learn);

}  // namespace detent

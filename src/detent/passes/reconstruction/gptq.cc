#include "detent/passes/reconstruction/gptq.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/passes/reconstruction/cholesky.h"

namespace detent {
namespace {

std::vector<int64_t> column_order(const Matrix<double>& gram, bool act_order) {
  std::vector<int64_t> order(static_cast<size_t>(gram.rows()));
  std::iota(order.begin(), order.end(), 0);
  if (act_order) {
    std::ranges::stable_sort(order, [&](int64_t a, int64_t b) { return gram(a, a) > gram(b, b); });
  }
  return order;
}

/// The lower triangle of `gram` with rows and columns in that order, inputs that are always 0 made
/// independent, damped.
Matrix<double> damped(const Matrix<double>& gram, const std::vector<int64_t>& order, double percdamp) {
  const int64_t n = gram.rows();
  Matrix<double> h(n, n);
  double trace = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t a = order[static_cast<size_t>(i)];
    for (int64_t j = 0; j <= i; ++j) {
      const int64_t b = order[static_cast<size_t>(j)];
      h(i, j) = gram(std::max(a, b), std::min(a, b));
    }
    if (h(i, i) == 0) h(i, i) = 1;
    trace += h(i, i);
  }
  for (int64_t i = 0; i < n; ++i) h(i, i) += percdamp * trace / static_cast<double>(n);
  return h;
}

}  // namespace

void gptq_round(const Matrix<double>& gram, const ValueGrid& grid, const GptqOptions& options,
                const std::string& where, Tensor& weight, int64_t row_begin, int64_t row_end) {
  const int64_t n = gram.rows();
  DETENT_CHECK(weight.numel() == weight.dim(0) * n, "weight {}, Gram matrix of {}",
               shape_text(weight.shape()), n);
  const std::vector<int64_t> order = column_order(gram, options.act_order);
  const Matrix<double> u = inverse_cholesky_factor(damped(gram, order, options.percdamp));
  if (u.rows() == 0) {
    fail(
        "{}: the Gram matrix of the inputs is not positive definite (NaN or infinite inputs, or percdamp = "
        "{} "
        "too small)",
        where, options.percdamp);
  }
  // Rows do not influence each other; several at a time share the reading of U.
  constexpr int64_t kGrain = 8;
  parallel_for(row_end - row_begin, kGrain, [&](int64_t begin, int64_t end) {
    Matrix<double> rest(end - begin, n);
    float* values = weight.values<float>().data() + (row_begin + begin) * n;
    const auto element = [&](int64_t r, int64_t i) { return r * n + order[static_cast<size_t>(i)]; };
    for (int64_t r = 0; r < rest.rows(); ++r) {
      for (int64_t i = 0; i < n; ++i) rest(r, i) = static_cast<double>(values[element(r, i)]);
    }
    for (int64_t i = 0; i < n; ++i) {
      const double* factors = u.row(i);
      for (int64_t r = 0; r < rest.rows(); ++r) {
        double* row = rest.row(r);
        const int64_t at = element(r, i);
        values[at] = grid.rounded((row_begin + begin) * n + at, static_cast<float>(row[i]));
        const double error = (row[i] - static_cast<double>(values[at])) / factors[i];
        for (int64_t j = i + 1; j < n; ++j) row[j] -= error * factors[j];
      }
    }
  });
}

}  // namespace detent

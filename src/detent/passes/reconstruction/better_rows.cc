#include "detent/passes/reconstruction/better_rows.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "detent/core/error.h"
#include "detent/passes/reconstruction/gram.h"

namespace detent {

void choose_better_rows(const Matrix<double>& gram, const ValueGrid& grid, Tensor& weight, int64_t row_begin,
                        int64_t row_end,
                        const std::function<void(double nearest_error, Tensor& rounded)>& learn) {
  const int64_t n = gram.rows();
  DETENT_CHECK(weight.numel() == weight.dim(0) * n, "weight {}, Gram matrix of {}",
               shape_text(weight.shape()), n);
  Tensor nearest = weight.clone();
  const std::span<float> values = nearest.values<float>();
  for (int64_t i = row_begin * n; i < row_end * n; ++i) {
    float& value = values[static_cast<size_t>(i)];
    value = grid.rounded(i, value);
  }
  const std::vector<double> nearest_errors = output_errors(gram, nearest, weight, row_begin, row_end);
  const double before = std::accumulate(nearest_errors.begin(), nearest_errors.end(), 0.0);
  Tensor learned = nearest.clone();
  if (before > 0) learn(before, learned);
  const std::vector<double> errors = output_errors(gram, learned, weight, row_begin, row_end);
  for (int64_t r = row_begin; r < row_end; ++r) {
    const auto row = static_cast<size_t>(r - row_begin);
    const Tensor& better = errors[row] <= nearest_errors[row] ? learned : nearest;
    std::copy_n(better.values<float>().data() + r * n, n, weight.values<float>().data() + r * n);
  }
}

}  // namespace detent

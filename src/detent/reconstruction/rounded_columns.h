#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/core/tensor.h"
#include "detent/kernels/double_rows.h"
#include "detent/reconstruction/gptq.h"

namespace detent {

/// Goes through the columns of the rows. `make_row(r)` gives for row r of the tensor what rounds it: called
/// with i and what the row's elements are now, in the order of the columns, it returns the value of column
/// order[i]. `first`: what the first column of each row is rounded from instead of its own value; none: from
/// that.
template <class MakeRow>
void round_columns(const GptqColumns& columns, const MakeRow& make_row, Tensor& weight, int64_t row_begin,
                   int64_t row_end, std::span<const double> first = {}) {
  const int64_t n = columns.count();
  const std::vector<int64_t>& order = columns.order();
  const Matrix<double>& u = columns.factor();
  DETENT_CHECK(weight.numel() == weight.dim(0) * n, "weight {}, Gram matrix of {}",
               shape_text(weight.shape()), n);
  // Rows do not influence each other; several at a time share the reading of U.
  constexpr int64_t kGrain = 8;
  parallel_for(row_end - row_begin, kGrain, [&](int64_t begin, int64_t end) {
    Matrix<double> rest(end - begin, n);
    std::vector<decltype(make_row(0))> rows;
    float* values = weight.values<float>().data() + (row_begin + begin) * n;
    const auto element = [&](int64_t r, int64_t i) { return r * n + order[static_cast<size_t>(i)]; };
    for (int64_t r = 0; r < rest.rows(); ++r) {
      for (int64_t i = 0; i < n; ++i) rest(r, i) = static_cast<double>(values[element(r, i)]);
      rows.push_back(make_row(row_begin + begin + r));
    }
    for (int64_t i = 0; i < n; ++i) {
      const double* factors = u.row(i);
      for (int64_t r = 0; r < rest.rows(); ++r) {
        double* row = rest.row(r);
        float& value = values[element(r, i)];
        const double own = row[i];
        if (i == 0 && !first.empty()) row[0] = first[static_cast<size_t>(begin + r)];
        value = rows[static_cast<size_t>(r)](i, row);
        row[i] = own;
        const double error = (row[i] - static_cast<double>(value)) / factors[i];
        const double* const later = factors + i + 1;
        subtract_rows(&error, &later, 1, row + i + 1, n - i - 1);
      }
    }
  });
}

}  // namespace detent

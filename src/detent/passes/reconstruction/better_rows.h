#pragma once

#include <cstdint>
#include <functional>

#include "detent/core/tensor.h"
#include "detent/formats/groups/value_grid.h"
#include "detent/passes/reconstruction/matrix.h"

namespace detent {

/// Rounds the rows [row_begin, row_end) of `weight`, in place: each to nearest in `grid`, or as `learn`
/// rounds it where the layer's outputs have no larger an error then. `learn` gets the error of rounding to
/// nearest, above 0, and the weight rounded so, of which it replaces these rows. `gram` [n, n]: the mean of x
/// x^T over the inputs of these rows.
void choose_better_rows(const Matrix<double>& gram, const ValueGrid& grid, Tensor& weight, int64_t row_begin,
                        int64_t row_end,
                        const std::function<void(double nearest_error, Tensor& rounded)>& learn);

}  // namespace detent

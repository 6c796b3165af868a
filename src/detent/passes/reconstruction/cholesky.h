#pragma once

#include <vector>

#include "detent/passes/reconstruction/matrix.h"

namespace detent {

/// The upper triangular U with positive diagonal and U^T U = H^-1, for a symmetric positive definite H, of
/// which the lower triangle is read. In double; n^3 / 2 multiplications. Returns an empty matrix when H is
/// not positive definite.
Matrix<double> inverse_cholesky_factor(Matrix<double> h);

/// x with H x = b, for a symmetric positive definite H, of which the lower triangle is read.
std::vector<double> solved(const Matrix<double>& h, const std::vector<double>& b);

}  // namespace detent

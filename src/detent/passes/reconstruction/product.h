#pragma once

#include "detent/passes/reconstruction/matrix.h"

namespace detent {

/// A B; the rows are shared among threads.
Matrix<float> multiply(const Matrix<float>& a, const Matrix<float>& b);
/// The same into `c`, of that shape.
void multiply(const Matrix<float>& a, const Matrix<float>& b, Matrix<float>& c);

}  // namespace detent

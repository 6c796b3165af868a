#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "detent/kernels/product.h"

namespace detent {

/// Row-major, zero at first. In float32 matrices rows begin at multiples of kPadding elements, and the
/// columns between are zeros that products may compute with.
template <class T>
class Matrix {
 public:
  Matrix() = default;
  Matrix(int64_t rows, int64_t columns)
      : rows_(rows),
        columns_(columns),
        stride_(sizeof(T) == sizeof(float) ? (columns + kPadding - 1) / kPadding * kPadding : columns),
        values_(static_cast<size_t>(rows * stride_)) {}

  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  int64_t stride() const { return stride_; }
  T* row(int64_t index) { return values_.data() + index * stride_; }
  const T* row(int64_t index) const { return values_.data() + index * stride_; }
  T& operator()(int64_t r, int64_t c) { return row(r)[c]; }
  const T& operator()(int64_t r, int64_t c) const { return row(r)[c]; }
  std::span<T> values() { return values_; }
  std::span<const T> values() const { return values_; }

  static constexpr int64_t kPadding = FloatProduct::kPadding;

 private:
  int64_t rows_ = 0;
  int64_t columns_ = 0;
  int64_t stride_ = 0;
  std::vector<T> values_;
};

/// A B; the rows are shared among threads.
Matrix<float> multiply(const Matrix<float>& a, const Matrix<float>& b);
/// The same into `c`, of that shape.
void multiply(const Matrix<float>& a, const Matrix<float>& b, Matrix<float>& c);

/// The upper triangular U with positive diagonal and U^T U = H^-1, for a symmetric positive definite H, of
/// which the lower triangle is read. In double; n^3 / 2 multiplications. Returns an empty matrix when H is
/// not positive definite.
Matrix<double> inverse_cholesky_factor(Matrix<double> h);

/// x with H x = b, for a symmetric positive definite H, of which the lower triangle is read.
std::vector<double> solved(const Matrix<double>& h, const std::vector<double>& b);

}  // namespace detent

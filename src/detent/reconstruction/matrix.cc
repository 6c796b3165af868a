#include "detent/reconstruction/matrix.h"

#include <algorithm>
#include <cmath>

#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/kernels/product.h"

namespace detent {

void multiply(const Matrix<float>& a, const Matrix<float>& b, Matrix<float>& c) {
  DETENT_CHECK(a.columns() == b.rows() && c.rows() == a.rows() && c.columns() == b.columns(),
               "[{}, {}] x [{}, {}] into [{}, {}]", a.rows(), a.columns(), b.rows(), b.columns(), c.rows(),
               c.columns());
  std::ranges::fill(c.values(), 0.0F);
  constexpr int64_t kGrain = 16;
  parallel_for(a.rows(), kGrain, [&](int64_t begin, int64_t end) {
    add_product({.a = a.row(begin),
                 .a_row = a.stride(),
                 .a_column = 1,
                 .b = b.row(0),
                 .b_stride = b.stride(),
                 .c = c.row(begin),
                 .c_stride = c.stride(),
                 .rows = end - begin,
                 .depth = a.columns(),
                 .column_begin = 0,
                 .column_end = c.stride()});
  });
}

Matrix<float> multiply(const Matrix<float>& a, const Matrix<float>& b) {
  Matrix<float> c(a.rows(), b.columns());
  multiply(a, b, c);
  return c;
}

namespace {

/// H = R R^T with R upper triangular, from the last row upward; R^T (lower triangular) takes the place of H.
/// False when H is not positive definite.
bool factor_from_the_end(Matrix<double>& h) {
  constexpr int64_t kGrain = 64;
  for (int64_t k = h.rows() - 1; k >= 0; --k) {
    double* pivot_row = h.row(k);
    if (!(pivot_row[k] > 0) || !std::isfinite(pivot_row[k])) return false;
    const double root = std::sqrt(pivot_row[k]);
    pivot_row[k] = root;
    for (int64_t j = 0; j < k; ++j) pivot_row[j] /= root;
    parallel_for(k, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        double* row = h.row(i);
        const double factor = pivot_row[i];
        for (int64_t j = 0; j <= i; ++j) row[j] -= factor * pivot_row[j];
      }
    });
  }
  return true;
}

}  // namespace

// H = R R^T gives H^-1 = R^-T R^-1, so U = R^-1, which is upper triangular as R is. From U R = I:
//     U_jj = 1 / R_jj,  U_ij = -(sum over m = i .. j-1 of U_im R_mj) / R_jj.
Matrix<double> inverse_cholesky_factor(Matrix<double> h) {
  DETENT_CHECK(h.rows() == h.columns(), "[{}, {}]", h.rows(), h.columns());
  const int64_t n = h.rows();
  if (!factor_from_the_end(h)) return {};
  Matrix<double> u(n, n);
  constexpr int64_t kGrain = 8;
  parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      double* row = u.row(i);
      row[i] = 1 / h(i, i);
      for (int64_t j = i + 1; j < n; ++j) {
        const double* column = h.row(j);  // of R, as its transpose is stored
        double sum = 0;
        for (int64_t m = i; m < j; ++m) sum += row[m] * column[m];
        row[j] = -sum / column[j];
      }
    }
  });
  return u;
}

std::vector<double> solved(const Matrix<double>& h, const std::vector<double>& b) {
  const Matrix<double> u = inverse_cholesky_factor(h);  // H^-1 = U^T U
  DETENT_CHECK(u.rows() == std::ssize(b), "{} of {} rows", u.rows(), b.size());
  std::vector<double> x(b.size());
  for (int64_t i = 0; i < u.rows(); ++i) {
    double sum = 0;
    for (int64_t j = i; j < u.rows(); ++j) sum += u(i, j) * b[static_cast<size_t>(j)];
    for (int64_t j = i; j < u.rows(); ++j) x[static_cast<size_t>(j)] += u(i, j) * sum;
  }
  return x;
}

}  // namespace detent

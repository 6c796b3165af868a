#include "detent/reconstruction/matrix.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/kernels/double_rows.h"
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
/// False when H is not positive definite. Each element loses its products one after another, from the last
/// row's on; rows before a panel of pivots lose those of all of them while they are in the cache.
bool factor_from_the_end(Matrix<double>& h) {
  constexpr int64_t kGrain = 16;
  constexpr int64_t kPanel = 32;
  for (int64_t end = h.rows(); end > 0; end -= std::min(end, kPanel)) {
    const int64_t begin = std::max<int64_t>(end - kPanel, 0);
    std::vector<const double*> pivots;
    for (int64_t k = end - 1; k >= begin; --k) {
      double* pivot_row = h.row(k);
      if (!(pivot_row[k] > 0) || !std::isfinite(pivot_row[k])) return false;
      const double root = std::sqrt(pivot_row[k]);
      pivot_row[k] = root;
      for (int64_t j = 0; j < k; ++j) pivot_row[j] /= root;
      pivots.push_back(pivot_row);
      for (int64_t i = begin; i < k; ++i) subtract_rows(&pivot_row[i], &pivots.back(), 1, h.row(i), i + 1);
    }
    parallel_for(begin, kGrain, [&](int64_t first, int64_t last) {
      std::vector<double> factors(pivots.size());
      for (int64_t i = first; i < last; ++i) {
        std::ranges::transform(pivots, factors.begin(), [&](const double* pivot) { return pivot[i]; });
        subtract_rows(factors.data(), pivots.data(), std::ssize(pivots), h.row(i), i + 1);
      }
    });
  }
  return true;
}

/// Rows of the inverse U of R from `first` on, one a lane, `r` being R^T.
void invert_rows(const Matrix<double>& r, int64_t first, Matrix<double>& u) {
  const int64_t n = r.rows();
  std::vector<double> lanes(static_cast<size_t>((n - first) * kRowLanes));
  std::array<double, kRowLanes> sums{};
  double* to = lanes.data();
  for (int64_t j = first; j < n; ++j, to += kRowLanes) {
    const double* column = r.row(j);  // of R, as its transpose is stored
    multiply_lanes({.factors = column + first,
                    .stride = 0,
                    .rows = 1,
                    .lanes = lanes.data(),
                    .depth = j - first,
                    .sums = sums.data()});
    const auto before = static_cast<size_t>(std::min(j - first, kRowLanes));
    for (size_t lane = 0; lane < before; ++lane) to[lane] = -sums[lane] / column[j];
    if (j - first < kRowLanes) to[j - first] = 1 / column[j];
  }
  for (int64_t i = first; i < std::min(first + kRowLanes, n); ++i) {
    for (int64_t j = i; j < n; ++j) u(i, j) = lanes[static_cast<size_t>((j - first) * kRowLanes + i - first)];
  }
}

}  // namespace

// H = R R^T gives H^-1 = R^-T R^-1, so U = R^-1, which is upper triangular as R is. From U R = I:
//     U_jj = 1 / R_jj,  U_ij = -(sum over m = i .. j-1 of U_im R_mj) / R_jj.
Matrix<double> inverse_cholesky_factor(Matrix<double> h) {
  DETENT_CHECK(h.rows() == h.columns(), "[{}, {}]", h.rows(), h.columns());
  const int64_t n = h.rows();
  if (!factor_from_the_end(h)) return {};
  Matrix<double> u(n, n);
  parallel_for((n + kRowLanes - 1) / kRowLanes, 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) invert_rows(h, block * kRowLanes, u);
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

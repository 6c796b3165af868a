#include "detent/passes/reconstruction/product.h"

#include <algorithm>

#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/core/product.h"

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

}  // namespace detent

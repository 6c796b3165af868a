#include "detent/passes/reconstruction/gram.h"

#include <algorithm>
#include <cmath>

#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/passes/reconstruction/product.h"

namespace detent {

GramMatrices::GramMatrices(const Im2Col& im2col) : im2col_(im2col) {
  for (int64_t g = 0; g < im2col.groups(); ++g) sums_.emplace_back(im2col.length(), im2col.length());
}

void GramMatrices::add(const Tensor& input) {
  // A single group leaves its parallelism to what is inside, many do not.
  if (im2col_.groups() == 1) {
    add_group(input, 0);
  } else {
    parallel_for(im2col_.groups(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t g = begin; g < end; ++g) add_group(input, g);
    });
  }
  count_ += im2col_.count(input.shape());
}

void GramMatrices::add_group(const Tensor& input, int64_t group) {
  constexpr int64_t kPanel = 32;  // rows of the result that a thread takes
  const int64_t n = im2col_.length();
  const int64_t count = im2col_.count(input.shape());
  Matrix<double>& sum = sums_[static_cast<size_t>(group)];
  Matrix<float> run(std::min(kRun, count), n);
  for (int64_t begin = 0; begin < count; begin += kRun) {
    const int64_t end = std::min(begin + kRun, count);
    im2col_.copy(input, group, begin, end, run);
    parallel_for(n, kPanel, [&](int64_t row_begin, int64_t row_end) {
      constexpr int64_t kPadding = Matrix<float>::kPadding;
      const int64_t columns = (row_end + kPadding - 1) / kPadding * kPadding;
      Matrix<float> panel(row_end - row_begin, columns);
      add_product({.a = run.row(0) + row_begin,
                   .a_row = 1,
                   .a_column = run.stride(),
                   .b = run.row(0),
                   .b_stride = run.stride(),
                   .c = panel.row(0),
                   .c_stride = panel.stride(),
                   .rows = panel.rows(),
                   .depth = end - begin,
                   .column_begin = 0,
                   .column_end = columns});
      for (int64_t i = row_begin; i < row_end; ++i) {
        const float* products = panel.row(i - row_begin);
        double* target = sum.row(i);
        for (int64_t j = 0; j <= i; ++j) target[j] += static_cast<double>(products[j]);
      }
    });
  }
}

Matrix<double> GramMatrices::mean(int64_t group, const std::string& where) const {
  if (count_ == 0) fail("{}: no input reached the layer", where);
  const Matrix<double>& sum = sums_[static_cast<size_t>(group)];
  if (!std::ranges::all_of(sum.values(), [](double value) { return std::isfinite(value); })) {
    fail("{}: the Gram matrix of the inputs is not finite: an input is NaN or infinite", where);
  }
  Matrix<double> result(sum.rows(), sum.columns());
  for (int64_t i = 0; i < sum.rows(); ++i) {
    for (int64_t j = 0; j <= i; ++j) result(i, j) = result(j, i) = sum(i, j) / static_cast<double>(count_);
  }
  return result;
}

std::vector<double> output_errors(const Matrix<double>& gram, const Tensor& a, const Tensor& b,
                                  int64_t row_begin, int64_t row_end) {
  const int64_t n = gram.rows();
  const float* first = a.values<float>().data();
  const float* second = b.values<float>().data();
  std::vector<double> errors(static_cast<size_t>(row_end - row_begin));
  constexpr int64_t kGrain = 4;
  parallel_for(row_end - row_begin, kGrain, [&](int64_t begin, int64_t end) {
    std::vector<double> d(static_cast<size_t>(n));
    for (int64_t r = begin; r < end; ++r) {
      const int64_t offset = (row_begin + r) * n;
      for (int64_t i = 0; i < n; ++i) {
        d[static_cast<size_t>(i)] =
            static_cast<double>(first[offset + i]) - static_cast<double>(second[offset + i]);
      }
      double error = 0;
      for (int64_t i = 0; i < n; ++i) {
        if (d[static_cast<size_t>(i)] == 0) continue;
        const double* row = gram.row(i);
        double product = 0;
        for (int64_t j = 0; j < n; ++j) product += row[j] * d[static_cast<size_t>(j)];
        error += d[static_cast<size_t>(i)] * product;
      }
      errors[static_cast<size_t>(r)] = error;
    }
  });
  return errors;
}

}  // namespace detent

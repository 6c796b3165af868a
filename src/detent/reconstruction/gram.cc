#include "detent/reconstruction/gram.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/kernels/double_rows.h"
#include "detent/reconstruction/matrix.h"

namespace detent {
namespace {

/// For each group on its own; a single one leaves its parallelism to what is inside.
template <class Work>
void for_each_group(const Im2Col& im2col, const Work& work) {
  if (im2col.groups() == 1) {
    work(0);
    return;
  }
  parallel_for(im2col.groups(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t group = begin; group < end; ++group) work(group);
  });
}

/// sum(i, j) += the sum over `depth` rows of left(row, i) right(row, j), in the lower triangle or everywhere.
void add_products(const Matrix<float>& left, const Matrix<float>& right, int64_t depth, bool is_symmetric,
                  Matrix<double>& sum) {
  constexpr int64_t kPanel = 32;  // rows of the result that a thread takes
  const int64_t n = sum.rows();
  parallel_for(n, kPanel, [&](int64_t row_begin, int64_t row_end) {
    constexpr int64_t kPadding = Matrix<float>::kPadding;
    const int64_t wanted = is_symmetric ? row_end : n;
    const int64_t columns = (wanted + kPadding - 1) / kPadding * kPadding;
    Matrix<float> panel(row_end - row_begin, columns);
    add_product({.a = left.row(0) + row_begin,
                 .a_row = 1,
                 .a_column = left.stride(),
                 .b = right.row(0),
                 .b_stride = right.stride(),
                 .c = panel.row(0),
                 .c_stride = panel.stride(),
                 .rows = panel.rows(),
                 .depth = depth,
                 .column_begin = 0,
                 .column_end = columns});
    for (int64_t i = row_begin; i < row_end; ++i) {
      const float* products = panel.row(i - row_begin);
      double* target = sum.row(i);
      const int64_t end = is_symmetric ? i + 1 : n;
      for (int64_t j = 0; j < end; ++j) target[j] += static_cast<double>(products[j]);
    }
  });
}

void add_rows(const Matrix<float>& rows, int64_t count, std::vector<double>& sum) {
  for (int64_t i = 0; i < count; ++i) {
    const float* row = rows.row(i);
    for (size_t j = 0; j < sum.size(); ++j) sum[j] += static_cast<double>(row[j]);
  }
}

Tensor difference(const Tensor& a, const Tensor& b) {
  DETENT_CHECK(a.shape() == b.shape(), "{} and {}", shape_text(a.shape()), shape_text(b.shape()));
  Tensor result(DType::kFloat32, a.shape());
  std::ranges::transform(a.values<float>(), b.values<float>(), result.values<float>().begin(),
                         std::minus<float>());
  return result;
}

void check_sums(const Matrix<double>& sums, int64_t count, const std::string& where) {
  if (count == 0) fail("{}: no input reached the layer", where);
  if (!std::ranges::all_of(sums.values(), [](double value) { return std::isfinite(value); })) {
    fail("{}: the Gram matrix of the inputs is not finite: an input is NaN or infinite", where);
  }
}

/// For each row r < count: the sum over i of left(r, i) times that over j of matrix(i, j) right(r, j), both
/// in order.
template <class Left, class Right>
std::vector<double> bilinear_sums(const Matrix<double>& matrix, int64_t count, const Left& left,
                                  const Right& right) {
  constexpr int64_t kRowsAtOnce = 32;  // of the matrix
  const int64_t n = matrix.rows();
  std::vector<double> sums(static_cast<size_t>(count));
  parallel_for((count + kRowLanes - 1) / kRowLanes, 1, [&](int64_t begin, int64_t end) {
    std::vector<double> lanes(static_cast<size_t>(n * kRowLanes));
    std::vector<double> products(static_cast<size_t>(kRowsAtOnce * kRowLanes));
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * kRowLanes;
      const int64_t rows = std::min(kRowLanes, count - first);
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t i = 0; i < n; ++i) lanes[static_cast<size_t>(i * kRowLanes + r)] = right(first + r, i);
      }
      for (int64_t i = 0; i < n; i += kRowsAtOnce) {
        const int64_t some = std::min(kRowsAtOnce, n - i);
        multiply_lanes({.factors = matrix.row(i),
                        .stride = matrix.stride(),
                        .rows = some,
                        .lanes = lanes.data(),
                        .depth = n,
                        .sums = products.data()});
        for (int64_t r = 0; r < rows; ++r) {
          double& sum = sums[static_cast<size_t>(first + r)];
          for (int64_t k = 0; k < some; ++k)
            sum += left(first + r, i + k) * products[static_cast<size_t>(k * kRowLanes + r)];
        }
      }
    }
  });
  return sums;
}

}  // namespace

GramMatrices::GramMatrices(const Im2Col& im2col) : im2col_(im2col) {
  for (int64_t g = 0; g < im2col.groups(); ++g) {
    sums_.emplace_back(im2col.length(), im2col.length());
    row_sums_.emplace_back(static_cast<size_t>(im2col.length()));
  }
}

void GramMatrices::add(const Tensor& input) {
  const int64_t count = im2col_.count(input.shape());
  for_each_group(im2col_, [&](int64_t group) {
    Matrix<float> run(std::min(kRun, count), im2col_.length());
    for (int64_t begin = 0; begin < count; begin += kRun) {
      const int64_t end = std::min(begin + kRun, count);
      im2col_.copy(input, group, begin, end, run);
      add_products(run, run, end - begin, true, sums_[static_cast<size_t>(group)]);
      add_rows(run, end - begin, row_sums_[static_cast<size_t>(group)]);
    }
  });
  count_ += count;
}

Matrix<double> GramMatrices::mean(int64_t group, const std::string& where) const {
  const Matrix<double>& sum = sums_[static_cast<size_t>(group)];
  check_sums(sum, count_, where);
  Matrix<double> result(sum.rows(), sum.columns());
  for (int64_t i = 0; i < sum.rows(); ++i) {
    for (int64_t j = 0; j <= i; ++j) result(i, j) = result(j, i) = sum(i, j) / static_cast<double>(count_);
  }
  return result;
}

std::vector<double> GramMatrices::mean_row(int64_t group, const std::string& where) const {
  check_sums(sums_[static_cast<size_t>(group)], count_, where);
  std::vector<double> mean = row_sums_[static_cast<size_t>(group)];
  for (double& value : mean) value /= static_cast<double>(count_);
  return mean;
}

ShiftMatrices::ShiftMatrices(const Im2Col& im2col) : im2col_(im2col), grams_(im2col) {
  for (int64_t g = 0; g < im2col.groups(); ++g) sums_.emplace_back(im2col.length(), im2col.length());
}

void ShiftMatrices::add(const Tensor& input, const Tensor& in_float) {
  const Tensor shift = difference(in_float, input);
  grams_.add(shift);
  const int64_t count = im2col_.count(input.shape());
  constexpr int64_t kRun = GramMatrices::kRun;
  for_each_group(im2col_, [&](int64_t group) {
    Matrix<float> shifts(std::min(kRun, count), im2col_.length());
    Matrix<float> inputs(shifts.rows(), shifts.columns());
    for (int64_t begin = 0; begin < count; begin += kRun) {
      const int64_t end = std::min(begin + kRun, count);
      im2col_.copy(shift, group, begin, end, shifts);
      im2col_.copy(input, group, begin, end, inputs);
      add_products(shifts, inputs, end - begin, false, sums_[static_cast<size_t>(group)]);
    }
  });
}

Matrix<double> ShiftMatrices::mean(int64_t group, const std::string& where) const {
  Matrix<double> result = sums_[static_cast<size_t>(group)];
  check_sums(result, grams_.row_count(), where);
  for (double& value : result.values()) value /= static_cast<double>(grams_.row_count());
  return result;
}

// With d = w - v:  w f - v x = w (f - x) + d x, so its mean square is  w S w^T + 2 w D d^T + d H d^T,
// where H is the Gram matrix, D the shift and S its Gram matrix.
std::vector<double> row_errors(const InputMoments& inputs, const Tensor& weight, const Tensor& chosen,
                               int64_t row_begin, int64_t row_end) {
  std::vector<double> errors = output_errors(inputs.gram, weight, chosen, row_begin, row_end);
  if (inputs.shift.rows() == 0) return errors;
  const int64_t n = inputs.gram.rows();
  const float* originals = weight.values<float>().data();
  const float* values = chosen.values<float>().data();
  const Tensor zero(DType::kFloat32, weight.shape());
  const std::vector<double> moved = output_errors(inputs.shift_gram, weight, zero, row_begin, row_end);
  const auto own = [&](int64_t r, int64_t i) {
    return static_cast<double>(originals[(row_begin + r) * n + i]);
  };
  const auto change = [&](int64_t r, int64_t i) {
    return own(r, i) - static_cast<double>(values[(row_begin + r) * n + i]);
  };
  const std::vector<double> sums = bilinear_sums(inputs.shift, row_end - row_begin, own, change);
  for (size_t r = 0; r < errors.size(); ++r) errors[r] += moved[r] + 2 * sums[r];
  return errors;
}

std::vector<double> output_shifts(const std::vector<double>& mean_row, const Tensor& a, const Tensor& b,
                                  int64_t row_begin, int64_t row_end) {
  const auto n = std::ssize(mean_row);
  const float* first = a.values<float>().data();
  const float* second = b.values<float>().data();
  std::vector<double> shifts;
  for (int64_t r = row_begin; r < row_end; ++r) {
    double shift = 0;
    for (int64_t i = 0; i < n; ++i) {
      const double d = static_cast<double>(first[r * n + i]) - static_cast<double>(second[r * n + i]);
      shift += d * mean_row[static_cast<size_t>(i)];
    }
    shifts.push_back(shift);
  }
  return shifts;
}

std::vector<double> output_errors(const Matrix<double>& gram, const Tensor& a, const Tensor& b,
                                  int64_t row_begin, int64_t row_end) {
  const int64_t n = gram.rows();
  const float* first = a.values<float>().data();
  const float* second = b.values<float>().data();
  const auto change = [&](int64_t r, int64_t i) {
    const int64_t at = (row_begin + r) * n + i;
    return static_cast<double>(first[at]) - static_cast<double>(second[at]);
  };
  return bilinear_sums(gram, row_end - row_begin, change, change);
}

}  // namespace detent

#include "detent/reconstruction/gptq.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/reconstruction/matrix.h"
#include "detent/reconstruction/rounded_columns.h"

namespace detent {
namespace {

std::vector<int64_t> column_order(const Matrix<double>& gram, bool act_order) {
  std::vector<int64_t> order(static_cast<size_t>(gram.rows()));
  std::iota(order.begin(), order.end(), 0);
  if (act_order) {
    std::ranges::stable_sort(order, [&](int64_t a, int64_t b) { return gram(a, a) > gram(b, b); });
  }
  return order;
}

/// The lower triangle of `gram` with rows and columns in that order, inputs that are always 0 made
/// independent, damped.
Matrix<double> damped(const Matrix<double>& gram, const std::vector<int64_t>& order, double percdamp) {
  const int64_t n = gram.rows();
  Matrix<double> h(n, n);
  double trace = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t a = order[static_cast<size_t>(i)];
    for (int64_t j = 0; j <= i; ++j) {
      const int64_t b = order[static_cast<size_t>(j)];
      h(i, j) = gram(std::max(a, b), std::min(a, b));
    }
    if (h(i, i) == 0) h(i, i) = 1;
    trace += h(i, i);
  }
  for (int64_t i = 0; i < n; ++i) h(i, i) += percdamp * trace / static_cast<double>(n);
  return h;
}

/// `order` with the columns of each block one after another, where the block's first was: so that little has
/// moved since its scale was fixed.
std::vector<int64_t> block_by_block(const std::vector<int64_t>& order, const BlockRounding& rounding) {
  std::vector<std::vector<int64_t>> columns(static_cast<size_t>(rounding.block_count()));
  std::vector<size_t> begun;
  for (const int64_t column : order) {
    const auto block = static_cast<size_t>(rounding.blocks()[static_cast<size_t>(column)]);
    if (columns[block].empty()) begun.push_back(block);
    columns[block].push_back(column);
  }
  std::vector<int64_t> result;
  for (const size_t block : begun) result.insert(result.end(), columns[block].begin(), columns[block].end());
  return result;
}

/// Rounds one row in a block format, block by block.
class BlockRow {
 public:
  BlockRow(const BlockRounding& rounding, const std::vector<int64_t>& order, const std::string& where)
      : rounding_(rounding), order_(order), where_(where) {}

  float operator()(int64_t i, const double* row) {
    if (i == end_) begin_block(row);
    const auto x = static_cast<float>(row[i]);
    return i == keeper_ ? rounding_.kept(x, largest_, where_) : rounding_.rounded(x, largest_);
  }

 private:
  int64_t block_at(int64_t i) const {
    return rounding_.blocks()[static_cast<size_t>(order_[static_cast<size_t>(i)])];
  }
  void begin_block(const double* row) {
    const int64_t begin = end_;
    keeper_ = begin;
    for (; end_ < std::ssize(order_) && block_at(end_) == block_at(begin); ++end_) {
      if (std::fabs(row[end_]) > std::fabs(row[keeper_])) keeper_ = end_;
    }
    largest_ = rounding_.largest(static_cast<float>(std::fabs(row[keeper_])));
  }

  const BlockRounding& rounding_;
  const std::vector<int64_t>& order_;
  const std::string& where_;
  int64_t end_ = 0;     // of the block that is being rounded, as a place in the order
  int64_t keeper_ = 0;  // its largest element, which keeps its scale
  float largest_ = 0;   // value with that scale
};

}  // namespace

GptqColumns::GptqColumns(const Matrix<double>& gram, std::vector<int64_t> order, const GptqOptions& options,
                         const std::string& where)
    : order_(std::move(order)) {
  Matrix<double> h = damped(gram, order_, options.percdamp);
  if (h.rows() > 0) first_moment_ = h(0, 0);
  factor_ = inverse_cholesky_factor(std::move(h));
  if (factor_.rows() == 0) {
    fail(
        "{}: the Gram matrix of the inputs is not positive definite (NaN or infinite inputs, or percdamp = "
        "{} too small)",
        where, options.percdamp);
  }
}

GptqColumns::GptqColumns(const Matrix<double>& gram, const GptqOptions& options, const std::string& where)
    : GptqColumns(gram, column_order(gram, options.act_order), options, where) {}

GptqColumns block_columns(const Matrix<double>& gram, const BlockRounding& rounding,
                          const GptqOptions& options, const std::string& where) {
  return {gram, block_by_block(column_order(gram, options.act_order), rounding), options, where};
}

void match_float_outputs(const GptqColumns& columns, const Matrix<double>& shift, Tensor& weight,
                         int64_t row_begin, int64_t row_end) {
  const int64_t n = columns.count();
  const Matrix<double>& u = columns.factor();  // H^-1 = U^T U
  constexpr int64_t kGrain = 4;
  parallel_for(row_end - row_begin, kGrain, [&](int64_t begin, int64_t end) {
    std::vector<double> product(static_cast<size_t>(n));
    std::vector<double> change(static_cast<size_t>(n));
    for (int64_t r = begin; r < end; ++r) {
      float* row = weight.values<float>().data() + (row_begin + r) * n;
      std::ranges::fill(product, 0);
      std::ranges::fill(change, 0);
      for (int64_t i = 0; i < n; ++i) {
        const double* shifts = shift.row(i);
        for (int64_t j = 0; j < n; ++j)
          product[static_cast<size_t>(j)] += static_cast<double>(row[i]) * shifts[j];
      }
      for (int64_t i = 0; i < n; ++i) {
        const double* factors = u.row(i);
        double sum = 0;
        for (int64_t j = i; j < n; ++j)
          sum += factors[j] * product[static_cast<size_t>(columns.order()[static_cast<size_t>(j)])];
        for (int64_t j = i; j < n; ++j) change[static_cast<size_t>(j)] += sum * factors[j];
      }
      for (int64_t i = 0; i < n; ++i) {
        float& value = row[columns.order()[static_cast<size_t>(i)]];
        value = static_cast<float>(static_cast<double>(value) + change[static_cast<size_t>(i)]);
      }
    }
  });
}

std::vector<double> best_first_columns(const GptqColumns& columns, const Matrix<double>& shift,
                                       const Tensor& weight, int64_t row_begin, int64_t row_end) {
  const int64_t n = columns.count();
  const int64_t column = columns.order().front();
  std::vector<double> best;
  for (int64_t r = row_begin; r < row_end; ++r) {
    const float* row = weight.values<float>().data() + r * n;
    double product = 0;
    for (int64_t i = 0; i < n; ++i) product += static_cast<double>(row[i]) * shift(i, column);
    best.push_back(static_cast<double>(row[column]) + product / columns.first_moment());
  }
  return best;
}

void gptq_round(const GptqColumns& columns, const ValueGrid& grid, const std::string& /*where*/,
                Tensor& weight, int64_t row_begin, int64_t row_end, std::span<const double> first) {
  const auto make_row = [&](int64_t r) {
    return [&, first = r * columns.count()](int64_t i, const double* row) {
      return grid.rounded(first + columns.order()[static_cast<size_t>(i)], static_cast<float>(row[i]));
    };
  };
  round_columns(columns, make_row, weight, row_begin, row_end, first);
}

void gptq_round(const Matrix<double>& gram, const ValueGrid& grid, const GptqOptions& options,
                const std::string& where, Tensor& weight, int64_t row_begin, int64_t row_end) {
  gptq_round(GptqColumns(gram, options, where), grid, where, weight, row_begin, row_end);
}

void gptq_round(const GptqColumns& columns, const BlockRounding& rounding, const std::string& where,
                Tensor& weight, int64_t row_begin, int64_t row_end, std::span<const double> first) {
  const auto make_row = [&](int64_t /*r*/) { return BlockRow(rounding, columns.order(), where); };
  round_columns(columns, make_row, weight, row_begin, row_end, first);
}

void gptq_round(const Matrix<double>& gram, const BlockRounding& rounding, const GptqOptions& options,
                const std::string& where, Tensor& weight, int64_t row_begin, int64_t row_end) {
  gptq_round(block_columns(gram, rounding, options, where), rounding, where, weight, row_begin, row_end);
}

}  // namespace detent

#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "detent/core/parallel.h"
#include "detent/core/tensor.h"
#include "detent/formats/groups/value_grid.h"
#include "detent/reconstruction/matrix.h"

namespace detent {

/// The two values of a grid next to a weight, and where between them it lies.
struct GridNeighbours {
  float low;
  float high;       // the same as `low` beyond the ends of the grid
  float share = 0;  // in [0, 1): of the way from low to high

  bool are_two() const { return low < high; }
};

/// `values`: ascending, not empty.
inline GridNeighbours grid_neighbours(std::span<const float> values, float weight) {
  const auto above = std::ranges::lower_bound(values, weight);
  if (above == values.begin()) return {values.front(), values.front()};
  if (above == values.end()) return {values.back(), values.back()};
  const float low = *(above - 1);
  return {low, *above, std::clamp((weight - low) / (*above - low), 0.0F, 1.0F)};
}

/// The rows of a weight that share a Gram matrix H, while their rounding is learned. With d = rounded - exact
/// weights, a row errs by d H d^T, whose gradient is 2 d H.
class GramRows {
 public:
  /// The rows [row_begin, row_end) of `weight`, which stays where it is.
  GramRows(const Matrix<double>& gram, const Tensor& weight, int64_t row_begin, int64_t row_end)
      : n_(gram.rows()),
        first_(row_begin * n_),
        weight_(weight.values<float>().data() + first_),
        gram_(n_, n_),
        difference_(row_end - row_begin, n_),
        product_(row_end - row_begin, n_) {
    for (int64_t i = 0; i < n_; ++i) std::copy_n(gram.row(i), n_, gram_.row(i));
  }

  /// Elements a row.
  int64_t columns() const { return n_; }

  /// The two values beside each element, row by row.
  std::vector<GridNeighbours> neighbours(const ValueGrid& grid) const {
    std::vector<GridNeighbours> result;
    for (int64_t i = 0; i < difference_.rows() * n_; ++i)
      result.push_back(grid_neighbours(grid.values(first_ + i), weight_[i]));
    return result;
  }

  template <class Body>
  void for_each_row(const Body& body) const {
    constexpr int64_t kRowsAtOnce = 4;
    parallel_for(difference_.rows(), kRowsAtOnce, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) body(r);
    });
  }

  /// Computes `product` for the weights rounded(element), elements counted from the first row on.
  template <class Rounded>
  void multiply_differences(const Rounded& rounded) {
    for_each_row([&](int64_t r) {
      for (int64_t i = 0; i < n_; ++i) difference_(r, i) = rounded(r * n_ + i) - weight_[r * n_ + i];
    });
    multiply(difference_, gram_, product_);
  }
  /// d H, half the gradient.
  float product(int64_t r, int64_t i) const { return product_(r, i); }
  /// d H d^T of a row.
  double error(int64_t r) const {
    double sum = 0;
    for (int64_t i = 0; i < n_; ++i)
      sum += static_cast<double>(difference_(r, i)) * static_cast<double>(product_(r, i));
    return sum;
  }

 private:
  int64_t n_;
  int64_t first_;
  const float* weight_;
  Matrix<float> gram_;
  Matrix<float> difference_;
  Matrix<float> product_;
};

}  // namespace detent

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/graph/graph.h"
#include "detent/graph/strided_view.h"
#include "detent/passes/reconstruction/matrix.h"

namespace detent {

/// How a linear layer or convolution is a product of matrices: each output element is a row of the weight
/// times a patch of the input, that many elements long and in the weight's order. Of a convolution with
/// groups, each group of rows sees patches of its own channels.
class Patches {
 public:
  /// Of a linear layer, or a convolution of any number of dimensions that is not transposed. Throws Error,
  /// beginning with `where`, on another operator.
  Patches(const Node& node, const std::string& where);
  static bool exist_for(const Node& node);

  int64_t groups() const { return groups_; }
  int64_t length() const { return channels_ * element_count(kernel_.shape); }
  /// Rows of the weight that a group has.
  int64_t rows_per_group() const { return rows_ / groups_; }
  /// Of one group, in an input of that shape with its batch dimension.
  int64_t count(const Shape& input) const;
  /// Copies the patches [begin, end) of a group into the rows of `target` from 0 on.
  void copy(const Tensor& input, int64_t group, int64_t begin, int64_t end, Matrix<float>& target) const;

 private:
  Shape positions(const Shape& input) const;
  void copy_window(const float* plane, const StridedView& input, const int64_t* position, size_t dim,
                   float* target) const;

  bool convolves_ = false;
  int64_t rows_ = 0;
  int64_t groups_ = 1;
  int64_t channels_ = 0;  // of a group
  StridedView kernel_;    // one entry a spatial dimension, as in what follows
  std::vector<int64_t> stride_;
  std::vector<int64_t> padding_;
  std::vector<int64_t> dilation_;
};

}  // namespace detent

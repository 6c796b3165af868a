#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/graph/element_movement.h"
#include "detent/graph/graph.h"
#include "detent/reconstruction/matrix.h"

namespace detent {

/// A linear layer or convolution as a product of matrices (im2col): each output element is a row of the
/// weight times a row of im2col, which holds the elements of the input that the window sees in the weight's
/// order. In a convolution with groups each group of the weight's rows has rows of im2col of its own
/// channels.
class Im2Col {
 public:
  /// Takes a linear layer, or a convolution of any number of dimensions that is not transposed. Throws Error,
  /// beginning with `where`, on another operator.
  Im2Col(const Node& node, const std::string& where);
  static bool exist_for(const Node& node);

  int64_t groups() const { return groups_; }
  int64_t length() const { return channels_ * element_count(kernel_.shape); }
  /// Rows of the weight that a group has.
  int64_t rows_per_group() const { return rows_ / groups_; }
  /// Rows of im2col that one group has for an input of that shape, batch dimension included.
  int64_t count(const Shape& input) const;
  /// Copies the rows of im2col [begin, end) of a group into the rows of `target` from 0 on.
  void copy(const Tensor& input, int64_t group, int64_t begin, int64_t end, Matrix<float>& target) const;

 private:
  Shape positions(const Shape& input) const;
  void find_taps(const StridedView& plane, const Shape& position, std::vector<int64_t>& taps) const;

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

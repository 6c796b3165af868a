#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "detent/onnx/node_import.h"

namespace detent {

/// A constant added to each channel of a layer's result, which nothing else reads, is the layer's bias: the
/// layer with it. Nothing where input `addend` is something else.
std::optional<NodeInput> layer_with_bias(NodeImport& node, size_t product, size_t addend);

/// Two inputs added to each other; a layer with a bias where they are one.
NodeInput added(NodeImport& node, size_t product, size_t addend);

/// A function of rows, applied to a value whose dimensions from `axis` on make a row, in the value's own
/// shape (elementwise.cc).
NodeInput as_rows_from(NodeImport& node, const NodeInput& x, int64_t axis,
                       const std::function<NodeInput(const NodeInput&)>& of_rows);

/// Gives the first result, of floats, as the element type that the model has for it.
void give_floats(NodeImport& node, NodeInput result, DType dtype);

/// The product of matrices of two or more dimensions; of integers as sums of products, which wrap.
NodeInput matrix_product(NodeImport& node, const NodeInput& a, const NodeInput& b);

NodeInput reduced_mean(NodeImport& node, NodeInput x, const std::vector<int64_t>& dims);

/// (x - mean) / sqrt(variance + epsilon), and what it took.
struct Standardized {
  NodeInput value;
  NodeInput mean;
  NodeInput deviation;
};
Standardized standardized_over(NodeImport& node, const NodeInput& x, const std::vector<int64_t>& dims,
                               double epsilon);

/// x / sqrt(mean of x^2 + epsilon)
NodeInput over_root_mean_square(NodeImport& node, const NodeInput& x, const std::vector<int64_t>& dims,
                                double epsilon);

/// Sizes, steps and borders of windows that a convolution or pooling node moves over the last dimensions.
struct ImportedWindow {
  std::vector<int64_t> kernel;
  std::vector<int64_t> stride;
  std::vector<int64_t> dilation;
  std::vector<int64_t> before;  // border before each dimension; below 0 what is cut off
  std::vector<int64_t> after;
  /// Borders of auto_pad that follow from sizes which are open: with_computed_border adds them, and those
  /// above are 0.
  bool computed_border = false;

  /// Whether the border is the same on both sides, and cuts nothing off.
  bool is_symmetric() const;
  bool has_border() const;
  bool cuts() const;
};

/// Treatment of borders that follow from open sizes.
enum class OpenBorders { kRefused, kComputed };

/// As the node's attributes say, auto_pad resolved; `kernel` where they do not give it. Throws Error where a
/// list has another length than the input has spatial dimensions.
ImportedWindow imported_window(const NodeImport& node, const std::optional<std::vector<int64_t>>& kernel = {},
                               OpenBorders borders = OpenBorders::kRefused);

/// Attributes of a convolution's node. A border that differs between the sides is not among them:
/// with_border.
Table convolution_attributes(const NodeImport& node, const ImportedWindow& window);

/// Borders of the last dimensions of [N, C, ...] as `dynamic_pad` lists them; what is below 0 is cut off.
NodeInput spatial_borders(const std::vector<int64_t>& before, const std::vector<int64_t>& after);

/// The value without what the window's border cuts off, which is then 0 there.
NodeInput cut(NodeImport& node, ImportedWindow& window, NodeInput input);

/// A value with the window's border of this number around it.
NodeInput with_border(NodeImport& node, ImportedWindow window, NodeInput input, double value);

/// A value with the border that auto_pad gives it, which the network computes of its sizes.
NodeInput with_computed_border(NodeImport& node, const ImportedWindow& window, NodeInput input, double value);

/// A value as the node's window averages it (pooling.cc).
NodeInput average_pooled(NodeImport& node, NodeInput input);

}  // namespace detent

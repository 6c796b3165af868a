#include <limits>

#include "detent/graph/element_movement.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"
#include "detent/inference/float_node.h"
#include "detent/kernels/normalization.h"
#include "detent/kernels/tensor_layout.h"

namespace detent {
namespace {

double eps_of(const Node& node) { return number_attribute(node, "eps"); }

/// The tensor with two dimensions exchanged.
Tensor exchanged(const Tensor& tensor, size_t a, size_t b) {
  StridedView view = StridedView::of(tensor.shape());
  std::swap(view.shape[a], view.shape[b]);
  std::swap(view.strides[a], view.strides[b]);
  return gathered(tensor, view);
}

using Rows = std::optional<RowFunction>;

/// Along the last dimension.
RowFunction softmax_of_rows(const FloatNode& n, int64_t count) {
  return {count, [count, log = trait<Softmax>(n.node)->log](std::span<const float> values,
                                                            std::span<float> results) {
            softmax(values, results, count, log);
          }};
}

size_t axis_of(const FloatNode& n, const Shape& input) {
  const int64_t dim = integer_attribute(n.node, "dim");
  return static_cast<size_t>(dim < 0 ? dim + std::ssize(input) : dim);
}

Rows softmax_rows(const FloatNode& n, const Shape& input) {
  if (element_count(input) == 0 || axis_of(n, input) + 1 != input.size()) return std::nullopt;
  return softmax_of_rows(n, input.back());
}

Tensor softmax_along(const FloatNode& n) {
  const Tensor& x = n.tensor(0);
  if (x.numel() == 0) return x;
  const size_t axis = axis_of(n, x.shape());
  const size_t last = x.shape().size() - 1;
  const Tensor lines = axis == last ? x : exchanged(x, axis, last);
  Tensor result = result_tensor(lines.shape());
  softmax_of_rows(n, lines.dim(-1)).apply(lines.values<float>(), result.values<float>());
  return axis == last ? result : exchanged(result, axis, last);
}

RowNorm row_norm(const FloatNode& n, double eps) {
  return {element_count(integers_attribute(n.node, "normalized_shape")), n.values_of("weight"),
          n.values_of("bias"), eps};
}

ChannelNorm channel_norm(const FloatNode& n, int64_t groups) {
  const Shape& shape = n.tensor(0).shape();
  return {.channels = shape[1],
          .positions = element_count({shape.begin() + 2, shape.end()}),
          .groups = groups,
          .weight = n.values_of("weight"),
          .bias = n.values_of("bias"),
          .eps = eps_of(n.node)};
}

Rows layer_norm_rows(const FloatNode& n, const Shape& /*input*/) {
  const RowNorm norm = row_norm(n, eps_of(n.node));
  return RowFunction{norm.count, [norm](std::span<const float> values, std::span<float> results) {
                       layer_norm(norm, values, results);
                     }};
}

/// By the root mean square.
Rows rms_norm_rows(const FloatNode& n, const Shape& /*input*/) {
  const bool given = !n.node.attributes.find("eps")->is_na();
  const RowNorm norm = row_norm(n, given ? eps_of(n.node) : double{std::numeric_limits<float>::epsilon()});
  return RowFunction{norm.count, [norm](std::span<const float> values, std::span<float> results) {
                       rms_norm(norm, values, results);
                     }};
}

Tensor group_normalized(const FloatNode& n) {
  Tensor result = result_tensor(n.tensor(0).shape());
  group_norm(channel_norm(n, integer_attribute(n.node, "num_groups")), n.tensor(0).values<float>(),
             result.values<float>());
  return result;
}

Tensor batch_normalized(const FloatNode& n) {
  Tensor result = result_tensor(n.tensor(0).shape());
  batch_norm(channel_norm(n, 1), n.values_of("running_mean"), n.values_of("running_var"),
             n.tensor(0).values<float>(), result.values<float>());
  return result;
}

/// Each channel of each sample, or by the running statistics.
Tensor instance_normalized(const FloatNode& n) {
  if (n.parameter("running_mean")) return batch_normalized(n);
  Tensor result = result_tensor(n.tensor(0).shape());
  group_norm(channel_norm(n, n.tensor(0).dim(1)), n.tensor(0).values<float>(), result.values<float>());
  return result;
}

}  // namespace

FloatOperators float_normalization_operators() {
  return {{"softmax", softmax_along, false, softmax_rows},
          {"log_softmax", softmax_along, false, softmax_rows},
          {"layer_norm", computed_by_rows, false, layer_norm_rows},
          {"rms_norm", computed_by_rows, false, rms_norm_rows},
          {"group_norm", group_normalized},
          {"instance_norm2d", instance_normalized},
          {"batch_norm1d", batch_normalized},
          {"batch_norm2d", batch_normalized},
          {"batch_norm3d", batch_normalized}};
}

}  // namespace detent

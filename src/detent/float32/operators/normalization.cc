#include <limits>

#include "detent/float32/float_node.h"
#include "detent/float32/normalization.h"
#include "detent/float32/result_tensor.h"
#include "detent/float32/softmax.h"
#include "detent/graph/operators.h"
#include "detent/graph/traits.h"
#include "detent/integer/element_movement.h"

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

Tensor softmax_along(const FloatNode& n) {
  const Tensor& x = n.tensor(0);
  const bool log = trait<Softmax>(n.node)->log;
  if (x.numel() == 0) return x;
  const int64_t dim = integer_attribute(n.node, "dim");
  const auto axis = static_cast<size_t>(dim < 0 ? dim + x.rank() : dim);
  const size_t last = x.shape().size() - 1;
  const Tensor lines = axis == last ? x : exchanged(x, axis, last);
  Tensor result = result_tensor(lines.shape());
  softmax(lines.values<float>(), result.values<float>(), lines.dim(-1), log);
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

Tensor layer_normalized(const FloatNode& n) {
  Tensor result = result_tensor(n.tensor(0).shape());
  layer_norm(row_norm(n, eps_of(n.node)), n.tensor(0).values<float>(), result.values<float>());
  return result;
}

Tensor divided_by_root_mean_square(const FloatNode& n) {
  const bool given = !n.node.attributes.find("eps")->is_na();
  const double eps = given ? eps_of(n.node) : double{std::numeric_limits<float>::epsilon()};
  Tensor result = result_tensor(n.tensor(0).shape());
  rms_norm(row_norm(n, eps), n.tensor(0).values<float>(), result.values<float>());
  return result;
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
  return {{"softmax", softmax_along},         {"log_softmax", softmax_along},
          {"layer_norm", layer_normalized},   {"rms_norm", divided_by_root_mean_square},
          {"group_norm", group_normalized},   {"instance_norm2d", instance_normalized},
          {"batch_norm1d", batch_normalized}, {"batch_norm2d", batch_normalized},
          {"batch_norm3d", batch_normalized}};
}

}  // namespace detent

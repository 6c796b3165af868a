#include "detent/graph/operators.h"
#include "detent/graph/traits.h"
#include "detent/inference/float_node.h"
#include "detent/inference/windows.h"
#include "detent/kernels/sums.h"

namespace detent {
namespace {

std::optional<Tensor> few_connections(const FloatNode& n, const Tensor& weight) {
  if (n.derived != nullptr && !n.derived->connections) return std::nullopt;
  const auto connections = n.derived == nullptr ? ordered_connections(n.node, weight) : std::nullopt;
  if (n.derived == nullptr && !connections) return std::nullopt;
  return sparse_sums(n.node, connections ? *connections : *n.derived->connections, n.tensor(0),
                     n.parameter("bias"));
}

ConvolutionWindow window_of(const Node& node, size_t dims) {
  return {integers_attribute(node, "stride", dims), integers_attribute(node, "padding", dims),
          integers_attribute(node, "dilation", dims), integer_attribute(node, "groups")};
}

Tensor linear(const FloatNode& n) {
  const Tensor weight = *n.parameter("weight");
  if (auto sums = few_connections(n, weight)) return *sums;
  return linear_sums(n.tensor(0), weight, n.parameter("bias"));
}

Tensor convolution(const FloatNode& n) {
  const Tensor weight = *n.parameter("weight");
  if (auto sums = few_connections(n, weight)) return *sums;
  const auto& layer = *trait<WeightedSum>(n.node);
  const ConvolutionWindow window = window_of(n.node, layer.spatial_dims);
  if (!layer.transposed) return convolution_sums(n.tensor(0), weight, n.parameter("bias"), window);
  return transposed_convolution_sums(n.tensor(0), weight, n.parameter("bias"), window,
                                     integers_attribute(n.node, "output_padding", layer.spatial_dims));
}

/// The weights are an input.
Tensor convolution_of_inputs(const FloatNode& n) {
  const size_t dims = n.tensor(0).shape().size() - 2;
  const ConvolutionWindow window = window_of(n.node, dims);
  const auto bias = n.is_absent(2) ? std::nullopt : std::optional(n.tensor(2));
  if (!boolean_attribute(n.node, "transposed"))
    return convolution_sums(n.tensor(0), n.tensor(1), bias, window);
  return transposed_convolution_sums(n.tensor(0), n.tensor(1), bias, window,
                                     integers_attribute(n.node, "output_padding", dims));
}

Tensor product(const FloatNode& n) { return matrix_product(n.tensor(0), n.tensor(1)); }

}  // namespace

FloatOperators float_layer_operators() {
  return {{"linear", linear},
          {"conv1d", convolution},
          {"conv2d", convolution},
          {"conv3d", convolution},
          {"convtranspose1d", convolution},
          {"convtranspose2d", convolution},
          {"convtranspose3d", convolution},
          {"convolution", convolution_of_inputs},
          {"matmul", product},
          {"bmm", product}};
}

}  // namespace detent

#include "detent/graph/operators/families.h"

namespace detent {
namespace {

/// Cross-correlation over the last `dims` dimensions: input [N, C, ...], weight [O, C / groups, ...].
Operand infer_convolution(const Node& node, std::span<const Operand> inputs, size_t dims) {
  const Shape& input = tensor_shape(inputs, 0);
  expect_rank(input, dims + 2);
  const Shape& weight = node.find_parameter("weight")->tensor.shape();
  const int64_t groups = integer_attribute(node, "groups");
  if (weight.size() != dims + 2 || groups < 1 || input[1] != weight[1] * groups || weight[0] % groups != 0) {
    fail("got an input of shape {}, weight {} and {} groups, expected [N, C, ...] and [O, C / groups, ...]",
         shape_text(input), shape_text(weight), groups);
  }
  expect_parameter_shape(node, "bias", {weight[0]});
  const auto stride = integers_attribute(node, "stride", dims);
  const auto padding = integers_attribute(node, "padding", dims);
  const auto dilation = integers_attribute(node, "dilation", dims);
  Shape shape = {input[0], weight[0]};
  for (size_t i = 0; i < dims; ++i) {
    shape.push_back(window_count(input[i + 2], weight[i + 2], stride[i], padding[i], dilation[i]));
  }
  return {std::move(shape), Value()};
}

OperatorSchema convolution(size_t dims) {
  return {.name = fmt::format("conv{}d", dims),
          .help = fmt::format("{}-dimensional convolution (cross-correlation) with zero padding", dims),
          .mase_type = MaseType::kModuleRelatedFunc,
          .parameters = {{.name = "weight"}, {.name = "bias", .required = false}},
          .attributes = {{"stride", AttributeKind::kIntegers, 1, "step of the window"},
                         {"padding", AttributeKind::kIntegers, 0, "zeros on both sides"},
                         {"dilation", AttributeKind::kIntegers, 1, "distance of the window's elements"},
                         {"groups", AttributeKind::kInteger, 1, "groups of channels that do not mix"}},
          .infer = [dims](const Node& node, std::span<const Operand> inputs) {
            return infer_convolution(node, inputs, dims);
          },
          .reduction_dims = {{"data_in_0", 1}, {"weight", 1}},
          .weight_channel_dim = 0,
          .onnx_name = "Conv",
          .quantizable = true};
}

}  // namespace

std::vector<OperatorSchema> convolution_operators() { return {convolution(1), convolution(2)}; }

}  // namespace detent

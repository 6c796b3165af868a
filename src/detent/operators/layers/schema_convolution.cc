#include <algorithm>

#include "detent/operators/schema.h"

namespace detent {
namespace {

/// Cross-correlation over the last `dims` dimensions: input [N, C, ...], weight [O, C / groups, ...].
Operand infer_convolution(const Node& node, std::span<const Operand> inputs, size_t dims) {
  const Shape& input = tensor_shape(inputs, 0);
  expect_rank(input, dims + 2);
  const Shape& weight = node.find_parameter("weight")->tensor.shape();
  const int64_t groups = integer_attribute(node, "groups");
  if (weight.size() != dims + 2 || groups < 1 || groups > kLargestSize || input[1] != weight[1] * groups ||
      weight[0] % groups != 0) {
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
  return weighted_sum(fmt::format("conv{}d", dims),
                      fmt::format("{}-dimensional convolution (cross-correlation) with zero padding", dims),
                      {.spatial_dims = dims, .channel_axis = 1},
                      {{"stride", AttributeKind::kIntegers, 1, "step of the window"},
                       {"padding", AttributeKind::kIntegers, 0, "zeros on both sides"},
                       {"dilation", AttributeKind::kIntegers, 1, "distance of the window's elements"},
                       {"groups", AttributeKind::kInteger, 1, "groups of channels that do not mix"}},
                      [dims](const Node& node, std::span<const Operand> inputs) {
                        return infer_convolution(node, inputs, dims);
                      });
}

/// The gradient of a convolution with respect to its input: input [N, C, ...], weight [C, O / groups, ...].
Operand infer_transposed(const Node& node, std::span<const Operand> inputs, size_t dims) {
  const Shape& input = tensor_shape(inputs, 0);
  expect_rank(input, dims + 2);
  const Shape& weight = node.find_parameter("weight")->tensor.shape();
  const int64_t groups = integer_attribute(node, "groups");
  if (weight.size() != dims + 2 || groups < 1 || groups > kLargestSize || input[1] != weight[0] ||
      weight[0] % groups != 0) {
    fail("got an input of shape {}, weight {} and {} groups, expected [N, C, ...] and [C, O / groups, ...]",
         shape_text(input), shape_text(weight), groups);
  }
  const int64_t channels = weight[1] * groups;
  expect_parameter_shape(node, "bias", {channels});
  const auto stride = integers_attribute(node, "stride", dims);
  const auto padding = integers_attribute(node, "padding", dims);
  const auto dilation = integers_attribute(node, "dilation", dims);
  const auto extra = integers_attribute(node, "output_padding", dims);
  Shape shape = {input[0], channels};
  for (size_t i = 0; i < dims; ++i) {
    if (stride[i] < 1 || dilation[i] < 1 || padding[i] < 0) {
      fail("got stride {}, dilation {}, padding {}: padding is at least 0, the others at least 1", stride[i],
           dilation[i], padding[i]);
    }
    for (const int64_t value : {input[i + 2], stride[i], padding[i], dilation[i], weight[i + 2]})
      expect_size("size of a window", value, 0);
    if (input[i + 2] < 1 || weight[i + 2] < 1) {
      fail("got an input of shape {} and weight {}, expected elements", shape_text(input),
           shape_text(weight));
    }
    if (extra[i] < 0 || extra[i] >= std::max(stride[i], dilation[i])) {
      fail("attribute \"output_padding\": got {}, expected at least 0 and less than stride {} or dilation {}",
           extra[i], stride[i], dilation[i]);
    }
    const int64_t size =
        (input[i + 2] - 1) * stride[i] - 2 * padding[i] + dilation[i] * (weight[i + 2] - 1) + extra[i] + 1;
    if (size < 1) fail("padding {} leaves nothing of an input of shape {}", padding[i], shape_text(input));
    shape.push_back(size);
  }
  return {std::move(shape), Value()};
}

OperatorSchema transposed_convolution(size_t dims) {
  return weighted_sum(
      fmt::format("convtranspose{}d", dims), fmt::format("{}-dimensional transposed convolution", dims),
      {.spatial_dims = dims, .channel_axis = 1, .transposed = true},
      {{"stride", AttributeKind::kIntegers, 1, "distance of neighbouring inputs in the result"},
       {"padding", AttributeKind::kIntegers, 0, "border cut from both sides of the result"},
       {"output_padding", AttributeKind::kIntegers, 0, "border added to one side of the result"},
       {"dilation", AttributeKind::kIntegers, 1, "distance of the window's elements"},
       {"groups", AttributeKind::kInteger, 1, "groups of channels that do not mix"}},
      [dims](const Node& node, std::span<const Operand> inputs) {
        return infer_transposed(node, inputs, dims);
      });
}

/// With the weight, and perhaps a bias, as inputs: [O, C / groups, ...], transposed [C, O / groups, ...].
Operand infer_weight_input(const Node& node, std::span<const Operand> inputs) {
  const Shape& input = tensor_shape(inputs, 0);
  const Shape& weight = tensor_shape(inputs, 1);
  if (input.size() < 3) fail("got an input of shape {}, expected [N, C, ...]", shape_text(input));
  const size_t dims = input.size() - 2;
  const bool transposed = boolean_attribute(node, "transposed");
  const int64_t groups = integer_attribute(node, "groups");
  const bool fits = weight.size() == input.size() && groups >= 1 && groups <= kLargestSize &&
                    weight[0] % groups == 0 && input[1] == (transposed ? weight[0] : weight[1] * groups);
  if (!fits) {
    fail("got an input of shape {}, weight {} and {} groups, expected channels that fit", shape_text(input),
         shape_text(weight), groups);
  }
  const int64_t channels = transposed ? weight[1] * groups : weight[0];
  if (inputs.size() > 2 && tensor_shape(inputs, 2) != Shape{channels})
    fail("got a bias of shape {}, expected [{}]", shape_text(inputs[2].shape), channels);
  const auto stride = integers_attribute(node, "stride", dims);
  const auto padding = integers_attribute(node, "padding", dims);
  const auto dilation = integers_attribute(node, "dilation", dims);
  const auto extra = integers_attribute(node, "output_padding", dims);
  Shape shape = {input[0], channels};
  for (size_t i = 0; i < dims; ++i) {
    if (!transposed) {
      shape.push_back(window_count(input[i + 2], weight[i + 2], stride[i], padding[i], dilation[i]));
      continue;
    }
    for (const int64_t value : {stride[i], dilation[i], input[i + 2], weight[i + 2]})
      expect_size("size of a window", value, 1);
    expect_size("attribute \"padding\"", padding[i], 0);
    if (extra[i] < 0 || extra[i] >= std::max(stride[i], dilation[i]))
      fail("attribute \"output_padding\": got {}, expected less than stride or dilation", extra[i]);
    shape.push_back((input[i + 2] - 1) * stride[i] - 2 * padding[i] + dilation[i] * (weight[i + 2] - 1) +
                    extra[i] + 1);
    if (shape.back() < 1)
      fail("padding {} leaves nothing of an input of shape {}", padding[i], shape_text(input));
  }
  return {std::move(shape), Value()};
}

OperatorSchema convolution_with_inputs() {
  return {.name = "convolution",
          .help = "convolution or transposed convolution of any rank; inputs 1 and 2 are weight and bias",
          .min_inputs = 2,
          .max_inputs = 3,
          .attributes = {{"stride", AttributeKind::kIntegers, 1, "step of the window"},
                         {"padding", AttributeKind::kIntegers, 0, "zeros on both sides"},
                         {"dilation", AttributeKind::kIntegers, 1, "distance of the window's elements"},
                         {"groups", AttributeKind::kInteger, 1, "groups of channels that do not mix"},
                         {"transposed", AttributeKind::kBoolean, false, "the transposed convolution"},
                         {"output_padding", AttributeKind::kIntegers, 0,
                          "transposed: border added to one side of the result"}},
          .infer = infer_weight_input,
          .reduction_dims = {{"data_in_0", 1}, {"data_in_1", 1}},
          .quantizable = true};
}

}  // namespace

std::vector<OperatorSchema> convolution_operators() {
  return {convolution(1),
          convolution(2),
          convolution(3),
          transposed_convolution(1),
          transposed_convolution(2),
          transposed_convolution(3),
          convolution_with_inputs()};
}

}  // namespace detent

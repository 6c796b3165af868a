#include <algorithm>
#include <cmath>
#include <limits>

#include "detent/graph/table_layer.h"
#include "detent/operators/schema.h"

namespace detent {
namespace {

const Tensor& constant_of(const Node& node, const char* name, DType dtype, int64_t rank) {
  const Tensor& tensor = node.find_parameter(name)->tensor;
  if (tensor.dtype() != dtype || tensor.rank() != rank) {
    fail("parameter \"{}\": got {} of shape {}, expected {} of {} dimensions", name,
         dtype_name(tensor.dtype()), shape_text(tensor.shape()), dtype_name(dtype), rank);
  }
  if (tensor.numel() == 0)
    fail("parameter \"{}\": got shape {}, expected elements", name, shape_text(tensor.shape()));
  return tensor;
}

void expect_table_shape(const char* name, const Tensor& tensor, const Shape& expected, const char* meaning) {
  if (tensor.shape() == expected) return;
  fail("parameter \"{}\": got shape {}, expected {}, {}", name, shape_text(tensor.shape()),
       shape_text(expected), meaning);
}

/// Dtypes and shapes of the constants, which do not depend on the input. Returns the number of outputs.
int64_t expect_constants(const Node& node) {
  const Tensor& inputs = constant_of(node, "inputs", DType::kInt64, 3);
  const Tensor& values = constant_of(node, "input_values", DType::kFloat32, 1);
  const std::optional<int64_t> entries = table_entries(values.dim(0), inputs.dim(2));
  if (!entries) {
    fail("tables over {} inputs of {} values have {:.3g} entries, expected at most 2^24", inputs.dim(2),
         values.dim(0), std::pow(static_cast<double>(values.dim(0)), static_cast<double>(inputs.dim(2))));
  }
  expect_table_shape("tables", constant_of(node, "tables", DType::kInt32, 3),
                     {inputs.dim(0), inputs.dim(1), *entries}, "[outputs, terms, input values^fan_in]");
  const Parameter* thresholds = node.find_parameter("thresholds");
  if (thresholds != nullptr) {
    const Tensor& steps = constant_of(node, "thresholds", DType::kInt32, 2);
    expect_table_shape("thresholds", steps, {inputs.dim(0), steps.dim(1)}, "a row for each output");
  }
  if (node.find_parameter("output_values") != nullptr) {
    const Tensor& results = constant_of(node, "output_values", DType::kFloat32, 1);
    if (thresholds != nullptr)
      expect_table_shape("output_values", results, {thresholds->tensor.dim(1) + 1},
                         "one more than thresholds");
  }
  return inputs.dim(0);
}

Operand infer_lut(const Node& node, std::span<const Operand> inputs) {
  Shape shape = tensor_shape(inputs, 0);
  const int64_t outputs = expect_constants(node);
  if (shape.empty()) fail("got an input of shape {}, expected [..., in]", shape_text(shape));
  shape.back() = outputs;
  return {std::move(shape), Value()};
}

Operand infer_lut_convolution(const Node& node, std::span<const Operand> inputs, size_t dims) {
  const Shape& input = tensor_shape(inputs, 0);
  expect_rank(input, dims + 2);
  Shape shape = {input[0], expect_constants(node)};
  const auto kernel = integers_attribute(node, "kernel_size", dims);
  const auto stride = integers_attribute(node, "stride", dims);
  const auto padding = integers_attribute(node, "padding", dims);
  const auto dilation = integers_attribute(node, "dilation", dims);
  for (size_t i = 0; i < dims; ++i)
    shape.push_back(window_count(input[i + 2], kernel[i], stride[i], padding[i], dilation[i]));
  return {std::move(shape), Value()};
}

/// Elements of a window of the input.
int64_t window_size(const Node& node, const Shape& input, size_t dims) {
  if (dims == 0) return input.back();
  int64_t size = input[1];
  for (const int64_t length : integers_attribute(node, "kernel_size", dims)) size *= length;
  return size;
}

/// Strictly ascending and finite, so that a value has one code.
void expect_ascending(std::span<const float> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) fail("parameter \"input_values\": got {}, expected numbers", values[i]);
    if (i > 0 && !(values[i - 1] < values[i])) {
      fail("parameter \"input_values\": got {} before {}, expected ascending values that differ",
           values[i - 1], values[i]);
    }
  }
}

void expect_sums(const TableLayerView& layer, int64_t output) {
  const SumRange range = table_sum_range(layer, output);
  constexpr int64_t kLargest = std::numeric_limits<int32_t>::max();
  if (range.least < -kLargest || range.most > kLargest) {
    fail("output {}: its sums can be {} to {}, expected magnitudes below 2^31", output, range.least,
         range.most);
  }
  const auto results = static_cast<int64_t>(layer.output_values.size());
  if (results > 0 && !layer.has_thresholds() && (range.least < 0 || range.most >= results)) {
    fail("output {}: its tables give {} to {}, expected indices of the {} output values", output, range.least,
         range.most, results);
  }
  if (!std::ranges::is_sorted(layer.thresholds_of(output)))
    fail("parameter \"thresholds\": those of output {} are not ascending", output);
}

void check_tables(const Node& node, std::span<const Operand> inputs, size_t dims) {
  const TableLayerView layer = table_layer_view(node);
  expect_ascending(layer.input_values);
  const int64_t window = window_size(node, inputs[0].shape, dims);
  if (window < 0)
    fail("the size of its windows is known to a run alone, expected an input of known channels");
  for (const int64_t index : layer.all_inputs) {
    if (index < 0 || index >= window)
      fail("parameter \"inputs\": got {}, expected 0 to {}, an element of a window", index, window - 1);
  }
  if (!(layer.scale > 0) || !std::isfinite(layer.scale))
    fail("attribute \"scale\": got {}, expected a number above 0", layer.scale);
  for (const float value : layer.output_values) {
    if (!std::isfinite(value)) fail("parameter \"output_values\": got {}, expected numbers", value);
  }
  for (int64_t output = 0; output < layer.outputs; ++output) expect_sums(layer, output);
  const auto pads = [&] {
    return std::ranges::any_of(integers_attribute(node, "padding", dims),
                               [](int64_t zeros) { return zeros > 0; });
  };
  if (dims > 0 && pads() && !layer.code_of(0))
    fail("attribute \"padding\": zeros are not among the input values");
}

OperatorSchema table_layer(std::string name, std::string help, size_t dims,
                           std::vector<AttributeSchema> attributes, ShapeInference infer) {
  attributes.push_back({"scale", AttributeKind::kNumber, 1.0, "what a code counts without output_values"});
  const auto constant = [](const char* parameter, bool required) {
    return ParameterSchema{.name = parameter, .required = required, .trainable = false, .any_dtype = true};
  };
  return {.name = std::move(name),
          .help = std::move(help),
          .mase_type = MaseType::kModuleRelatedFunc,
          .parameters = {constant("inputs", true), constant("tables", true), constant("input_values", true),
                         constant("thresholds", false), constant("output_values", false)},
          .attributes = std::move(attributes),
          .infer = std::move(infer),
          .check_content = [dims](const Node& node,
                                  std::span<const Operand> inputs) { check_tables(node, inputs, dims); },
          .trait = TableLayer{.spatial_dims = dims}};
}

OperatorSchema table_convolution(size_t dims) {
  return table_layer(
      fmt::format("lut_conv{}d", dims),
      fmt::format("truth tables over elements of {}-dimensional windows, with zero padding", dims), dims,
      {{"kernel_size", AttributeKind::kIntegers, Value(), "size of the window"},
       {"stride", AttributeKind::kIntegers, 1, "step of the window"},
       {"padding", AttributeKind::kIntegers, 0, "zeros on both sides"},
       {"dilation", AttributeKind::kIntegers, 1, "distance of the window's elements"}},
      [dims](const Node& node, std::span<const Operand> inputs) {
        return infer_lut_convolution(node, inputs, dims);
      });
}

}  // namespace

std::vector<OperatorSchema> table_operators() {
  return {table_layer("lut", "truth tables over elements of the last dimension", 0, {}, infer_lut),
          table_convolution(1), table_convolution(2)};
}

}  // namespace detent

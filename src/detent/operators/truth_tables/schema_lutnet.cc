#include "detent/graph/table_layer.h"

#include <algorithm>

#include "detent/operators/schema.h"

// Layers of tables in training (LUTNet: Wang et al. 2019, arXiv:1904.00938). An element of the input becomes
// the signs b_0, b_1, ... that its residual binarization with `gamma` has (formats/elements/
// binary_residual.h). In the place of a sum of products of signs there is a sum of functions of K signs each:
//
//     result(o) = sum_s amplitude[o, s] sum_t f[o, t, s](b_l(window[inputs[o, t, 0]]), ...) + bias[o]
//
// with l = s / (sums / levels), and f the polynomial of Lagrange that passes through the signs of
// tables[o, t, s, :], of which input k counts 2^k where its sign is +1.

namespace detent {
namespace {

/// Dtypes and shapes of the parameters.
void expect_trained_tables(const Node& node) {
  const Tensor& inputs = node.find_parameter("inputs")->tensor;
  const Tensor& tables = node.find_parameter("tables")->tensor;
  const Tensor& amplitude = node.find_parameter("amplitude")->tensor;
  const Tensor& gamma = node.find_parameter("gamma")->tensor;
  if (inputs.dtype() != DType::kInt64) fail("inputs are {}, expected int64", dtype_name(inputs.dtype()));
  if (inputs.rank() != 3 || inputs.numel() == 0 || inputs.dim(2) > kMostTableInputs) {
    fail("inputs have shape {}, expected [out, tables, 1 to {}]", shape_text(inputs.shape()),
         kMostTableInputs);
  }
  if (gamma.rank() != 1 || gamma.dim(0) < 1 || gamma.dim(0) > kMostLevels)
    fail("gamma has shape {}, expected [1 to {}]", shape_text(gamma.shape()), kMostLevels);
  const int64_t out = inputs.dim(0);
  const bool has_amplitudes = amplitude.rank() == 2 && (amplitude.dim(0) == 1 || amplitude.dim(0) == out) &&
                              amplitude.dim(1) >= 1 && amplitude.dim(1) % gamma.dim(0) == 0;
  if (!has_amplitudes) {
    fail("amplitude has shape {}, expected [1 or {}, a multiple of the {} levels]",
         shape_text(amplitude.shape()), out, gamma.dim(0));
  }
  expect_parameter_shape(node, "tables", {out, inputs.dim(1), amplitude.dim(1), int64_t{1} << inputs.dim(2)});
  expect_parameter_shape(node, "bias", {out});
  if (tables.dtype() != DType::kFloat32) fail("tables are {}, expected float32", dtype_name(tables.dtype()));
  if (!(number_attribute(node, "unit") >= 0))
    fail("attribute \"unit\": got {}, expected at least 0", number_attribute(node, "unit"));
}

Operand infer_lutnet_linear(const Node& node, std::span<const Operand> inputs) {
  Shape shape = tensor_shape(inputs, 0);
  if (shape.empty()) fail("got an input of shape {}, expected [..., in]", shape_text(shape));
  expect_trained_tables(node);
  shape.back() = node.find_parameter("inputs")->tensor.dim(0);
  return {std::move(shape), Value()};
}

Operand infer_lutnet_convolution(const Node& node, std::span<const Operand> inputs, size_t dims) {
  const Shape& input = tensor_shape(inputs, 0);
  expect_rank(input, dims + 2);
  const auto sizes = [&](const char* name) {
    const Value* value = node.attributes.find(name);
    const List* list = value == nullptr ? nullptr : value->get_if<List>();
    if (list != nullptr && list->size() != dims)
      fail("attribute \"{}\": got {} numbers, expected {}", name, list->size(), dims);
    return integers_attribute(node, name, dims);
  };
  const std::vector<int64_t> kernel = sizes("kernel_size");
  const std::vector<int64_t> stride = sizes("stride");
  const std::vector<int64_t> padding = sizes("padding");
  const std::vector<int64_t> dilation = sizes("dilation");
  Shape shape = {input[0], node.find_parameter("inputs")->tensor.dim(0)};
  for (size_t i = 0; i < dims; ++i) {
    expect_size("attribute \"kernel_size\"", kernel[i], 1);
    shape.push_back(window_count(input[i + 2], kernel[i], stride[i], padding[i], dilation[i]));
  }
  expect_trained_tables(node);
  return {std::move(shape), Value()};
}

/// Checks the inputs of tables.
void check_table_inputs(const Node& node, std::span<const Operand> operands, size_t dims) {
  int64_t elements = dims == 0 ? operands[0].shape.back() : operands[0].shape[1];
  if (dims > 0)
    for (const int64_t size : integers_attribute(node, "kernel_size", dims))
      elements = element_count({elements, size});
  const Tensor& inputs = node.find_parameter("inputs")->tensor;
  const auto indices = inputs.values<int64_t>();
  for (size_t i = 0; i < indices.size(); ++i) {
    const bool may_miss = indices[i] == kNoTable && i % static_cast<size_t>(inputs.dim(2)) == 0;
    if (may_miss || (indices[i] >= 0 && indices[i] < elements)) continue;
    fail("inputs: got {}, expected 0 to {}, or {} in the place of a table's first", indices[i], elements - 1,
         kNoTable);
  }
}

OperatorSchema lutnet(std::string name, std::string help, size_t dims,
                      std::vector<AttributeSchema> attributes, ShapeInference infer) {
  attributes.push_back({"unit", AttributeKind::kNumber, 0.0,
                        "amplitudes and biases are rounded to multiples of it, as tables hold them; 0: not"});
  attributes.push_back({"binarize", AttributeKind::kBoolean, true,
                        "tables are their signs; otherwise real numbers, as in a first training"});
  return {.name = std::move(name),
          .help = std::move(help),
          .mase_type = MaseType::kModuleRelatedFunc,
          .parameters = {{.name = "inputs", .trainable = false, .any_dtype = true},
                         {.name = "tables", .initial = NormalInitial{.deviation = 0.1}},
                         {.name = "gamma", .trainable = false, .initial = ConstantInitial{1}},
                         {.name = "amplitude", .initial = ConstantInitial{1}},
                         {.name = "bias", .required = false, .initial = ConstantInitial{0}}},
          .attributes = std::move(attributes),
          .infer = std::move(infer),
          .check_content = [dims](const Node& node, std::span<const Operand> operands) {
            check_table_inputs(node, operands, dims);
          }};
}

OperatorSchema lutnet_convolution(size_t dims) {
  return lutnet(
      fmt::format("lutnet_conv{}d", dims),
      fmt::format("sums of trained tables over windows of {} dimension{}", dims, dims == 1 ? "" : "s"), dims,
      {{"kernel_size", AttributeKind::kIntegers, Value(), "size of the window"},
       {"stride", AttributeKind::kIntegers, 1, "step of the window"},
       {"padding", AttributeKind::kIntegers, 0, "zeros on both sides, which are no sign"},
       {"dilation", AttributeKind::kIntegers, 1, "distance of the window's elements"}},
      [dims](const Node& node, std::span<const Operand> inputs) {
        return infer_lutnet_convolution(node, inputs, dims);
      });
}

constexpr const char* kNames[] = {"lutnet_linear", "lutnet_conv1d",
                                  "lutnet_conv2d"};  // by spatial dimensions

}  // namespace

const char* trained_tables_operator(size_t spatial_dims) { return kNames[spatial_dims]; }

const char* truth_tables_operator(size_t spatial_dims) {
  constexpr const char* kTruthTables[] = {"lut", "lut_conv1d", "lut_conv2d"};
  return kTruthTables[spatial_dims];
}

std::optional<TrainedTables> trained_tables(const Node& node) {
  const auto* name = std::ranges::find(kNames, node.op);
  if (name == std::ranges::end(kNames)) return std::nullopt;
  for (const char* parameter : {"inputs", "tables", "gamma"})
    if (node.find_parameter(parameter) == nullptr) return std::nullopt;
  const Shape& tables = node.find_parameter("tables")->tensor.shape();
  return TrainedTables{.spatial_dims = static_cast<size_t>(name - kNames),
                       .outputs = tables[0],
                       .terms = tables[1],
                       .fan_in = node.find_parameter("inputs")->tensor.dim(2),
                       .sums = tables[2],
                       .levels = node.find_parameter("gamma")->tensor.dim(0),
                       .unit = number_attribute(node, "unit"),
                       .binarized = boolean_attribute(node, "binarize")};
}

std::vector<OperatorSchema> lutnet_operators() {
  return {lutnet(kNames[0], "sums of trained tables over the last dimension", 0, {}, infer_lutnet_linear),
          lutnet_convolution(1), lutnet_convolution(2)};
}

}  // namespace detent

#include "detent/core/convert.h"
#include "detent/operators/schema.h"

namespace detent {

const Shape& tensor_shape(std::span<const Operand> inputs, size_t index) {
  DETENT_CHECK(index < inputs.size(), "input {} of {}", index, inputs.size());
  if (!inputs[index].is_tensor())
    fail("input {} is {}, expected a tensor", index, value_text(inputs[index].value));
  return inputs[index].shape;
}

void expect_one_element(std::span<const Operand> inputs, size_t index) {
  if (index >= inputs.size() || !inputs[index].is_tensor() || inputs[index].is_open()) return;
  if (element_count(inputs[index].shape) != 1)
    fail("input {} has shape {}, expected one number", index, shape_text(inputs[index].shape));
}

void expect_rank(const Shape& shape, size_t rank) {
  if (shape.size() != rank) fail("got an input of shape {}, expected {} dimensions", shape_text(shape), rank);
}

Operand same_shape(const Node&, std::span<const Operand> inputs) {
  return {tensor_shape(inputs, 0), Value()};
}

size_t dimension_index(int64_t dim, size_t rank) {
  const int64_t index = dim < 0 ? dim + static_cast<int64_t>(rank) : dim;
  if (index < 0 || index >= static_cast<int64_t>(rank))
    fail("dimension {} of a tensor of rank {}", dim, rank);
  return static_cast<size_t>(index);
}

void expect_parameter_shape(const Node& node, std::string_view parameter, const Shape& expected) {
  const Parameter* found = node.find_parameter(parameter);
  if (found == nullptr || found->tensor.shape() == expected) return;
  fail("parameter \"{}\": got shape {}, expected {}", parameter, shape_text(found->tensor.shape()),
       shape_text(expected));
}

void expect_size(std::string_view name, int64_t value, int64_t least) {
  if (value < least || value > kLargestSize)
    fail("{}: got {}, expected {} to {}", name, value, least, kLargestSize);
}

int64_t window_count(int64_t size, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation,
                     bool ceil_mode) {
  if (kernel < 1 || stride < 1 || dilation < 1 || padding < 0) {
    fail("got kernel {}, stride {}, dilation {}, padding {}: padding is at least 0, the others at least 1",
         kernel, stride, dilation, padding);
  }
  for (const int64_t value : {size, kernel, stride, padding, dilation})
    expect_size("size of a window", value, 0);
  // With ceil_mode a first window that does not fit counts too, as does every last one.
  const int64_t span = size + 2 * padding - dilation * (kernel - 1) - 1 + (ceil_mode ? stride - 1 : 0);
  if (span < 0)
    fail("a window of {} does not fit into {} + 2 * {}", dilation * (kernel - 1) + 1, size, padding);
  int64_t count = span / stride + 1;
  if (ceil_mode && (count - 1) * stride >= size + padding) --count;
  return count;
}

namespace {

constexpr size_t kMostOutputs = 4096;

/// A tensor that is small enough to be computed with while shapes are inferred.
std::optional<Tensor> small(const Tensor& tensor) {
  constexpr int64_t kMost = 1024;
  return tensor.numel() <= kMost ? std::optional(tensor) : std::nullopt;
}

std::optional<Tensor> cast_elements(const Node& /*node*/, std::span<const Operand> inputs,
                                    const Operand& result) {
  return inputs[0].elements ? std::optional(to_dtype(*inputs[0].elements, result.dtype)) : std::nullopt;
}

std::vector<Operand> infer_inference_dropout(const Node&, std::span<const Operand> inputs) {
  for (const size_t i : {size_t{1}, size_t{2}}) expect_one_element(inputs, i);
  const Shape& shape = tensor_shape(inputs, 0);
  return {{shape, Value(), inputs[0].dtype}, {shape, Value(), DType::kBool}};
}

}  // namespace

// NOLINTNEXTLINE(readability-function-size): a list
std::vector<OperatorSchema> structural_operators() {
  // Standard deviation of initial tokens and position embeddings in vision transformers (Dosovitskiy et al.
  // 2020, arXiv:2010.11929).
  constexpr double kTokenDeviation = 0.02;
  return {
      {.name = "placeholder",
       .help = "an input of the network",
       .mase_type = MaseType::kPlaceholder,
       .min_inputs = 0,
       .max_inputs = 0,
       .infer = [](const Node&, std::span<const Operand>) -> Operand { return {}; },
       .role = OperatorRole::kInput},
      {.name = "output",
       .help = "the result of the network",
       .mase_type = MaseType::kOutput,
       .max_inputs = kMostOutputs,
       .infer_results = [](const Node&, std::span<const Operand> inputs) -> std::vector<Operand> {
         return {inputs.begin(), inputs.end()};
       },
       .result_count = [](const Node& node) { return node.inputs.size(); },
       .dtypes = DTypeRule::kOwn,
       .role = OperatorRole::kOutput},
      {.name = "get_attr",
       .help = "a tensor that the network owns and trains",
       .mase_type = MaseType::kGetAttr,
       .min_inputs = 0,
       .max_inputs = 0,
       .parameters = {{.name = "value", .initial = NormalInitial{kTokenDeviation}, .any_dtype = true}},
       .infer = [](const Node& node, std::span<const Operand>) -> Operand {
         const Tensor& value = node.find_parameter("value")->tensor;
         const bool is_rounded = !node.quantization.empty() && is_floating_point(value.dtype());
         return {value.shape(), Value(), value.dtype(), false, is_rounded ? std::nullopt : small(value)};
       },
       .dtypes = DTypeRule::kOwn,
       .role = OperatorRole::kConstant},
      {.name = "identity",
       .help = "passes its input on",
       .mase_type = MaseType::kModuleRelatedFunc,
       .infer = same_shape,
       .dtypes = DTypeRule::kKept,
       .trait = Movement{}},
      {.name = "assert",
       .help = "passes input 0 on; where not all of input 1 holds, the run ends with an error",
       .mase_type = MaseType::kModuleRelatedFunc,
       .min_inputs = 2,
       .max_inputs = 2,
       .attributes = {{.name = "message",
                       .kind = AttributeKind::kText,
                       .default_value = Value(),
                       .help = "what the error says"}},
       .infer = [](const Node&, std::span<const Operand> inputs) -> Operand {
         if (!inputs[1].is_tensor() || inputs[1].dtype != DType::kBool) fail("input 1 is no tensor of bool");
         return {tensor_shape(inputs, 0), Value(), inputs[0].dtype};
       },
       .dtypes = DTypeRule::kOwn,
       .takes_open_sizes = true,
       .index_operands = {"data_in_1"}},
      {.name = "cast",
       .help = "the same values in another element type, rounded towards zero where that has integers",
       .attributes = {{.name = "dtype",
                       .kind = AttributeKind::kChoice,
                       .default_value = Value(),
                       .help = "element type of the result",
                       .choices = {"bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16",
                                   "float32", "float64"}}},
       .infer = [](const Node& node, std::span<const Operand> inputs) -> Operand {
         return {tensor_shape(inputs, 0), Value(), dtype_of_name(choice_attribute(node, "dtype"))};
       },
       .dtypes = DTypeRule::kOwn,
       .elements = cast_elements,
       .elementwise = true,
       .takes_open_sizes = true},
      {.name = "dropout",
       .help = "in training, zeroes elements with probability p and scales the others by 1 / (1 - p)",
       .mase_type = MaseType::kModuleRelatedFunc,
       .attributes =
           {{.name = "p", .kind = AttributeKind::kNumber, .default_value = 0.5, .help = "probability"}},
       .infer =
           [](const Node& node, std::span<const Operand> inputs) {
             const double p = number_attribute(node, "p");
             if (!(p >= 0 && p <= 1)) fail("attribute \"p\": got {}, expected 0 to 1", p);
             return same_shape(node, inputs);
           },
       .trait = Movement{},
       .random = true},
      {.name = "inference_dropout",
       .help = "passes its input on, with a mask that says so; input 2 is whether the network trains, input "
               "1 the "
               "share of elements that training drops: where both are not 0 a run ends with an error",
       .min_inputs = 3,
       .max_inputs = 3,
       .infer_results = infer_inference_dropout,
       .result_count = [](const Node&) { return size_t{2}; },
       .dtypes = DTypeRule::kOwn,
       .takes_open_sizes = true,
       .index_operands = {"data_in_1", "data_in_2"}},
  };
}

}  // namespace detent

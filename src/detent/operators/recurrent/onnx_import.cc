#include <algorithm>
#include <string>

#include "detent/core/convert.h"
#include "detent/core/error.h"
#include "detent/formats/verbs.h"
#include "detent/graph/operator_arguments.h"
#include "detent/operators/onnx_import.h"

namespace detent {
namespace {

using Function = RecurrentActivation::Function;

/// "HardSigmoid" is "hard_sigmoid" here; ONNX's names are not told apart by case.
Function function_of(const NodeImport& node, const std::string& name) {
  const auto plain = [](std::string_view text) {
    std::string result;
    for (const char c : text) {
      if (c != '_') result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    return result;
  };
  constexpr auto kNames = enum_names(Function());
  const auto* found = std::ranges::find(kNames, plain(name), plain);
  if (found == kNames.end()) node.refuse("the activation " + name);
  return static_cast<Function>(found - kNames.begin());
}

/// The numbers of activation_alpha and activation_beta are those of the functions that have such, in order.
std::string activations_text(const NodeImport& node, const std::vector<std::string>& names) {
  const std::vector<double> alphas = node.numbers("activation_alpha");
  const std::vector<double> betas = node.numbers("activation_beta");
  size_t next_alpha = 0;
  size_t next_beta = 0;
  std::string text;
  for (const std::string& name : names) {
    const Function function = function_of(node, name);
    const RecurrentActivationDefaults defaults = activation_defaults(function);
    text += fmt::format("{}{}", text.empty() ? "" : " ", enum_name(function));
    if (defaults.count > 0)
      text += fmt::format(":{}", next_alpha < alphas.size() ? alphas[next_alpha++] : defaults.alpha);
    if (defaults.count > 1)
      text += fmt::format(":{}", next_beta < betas.size() ? betas[next_beta++] : defaults.beta);
  }
  return text;
}

/// States of more samples than there are: the operator would repeat the one sample, ONNX does not.
void expect_states_of_samples(const NodeImport& node) {
  constexpr size_t kStates = 5;
  constexpr size_t kWeightsOfCell = 7;
  const int64_t dim = node.integer("layout", 0) != 0 ? 0 : 1;
  const bool has_one_sample = node.rank(0) == 3 && node.size(0, dim) == 1;
  for (size_t i = kStates; has_one_sample && i < std::min(node.input_count(), kWeightsOfCell); ++i) {
    if (!node.has_input(i) || node.rank(i) != 3) continue;
    const auto samples = node.size(i, dim);
    if (samples && *samples > 1) fail("input {} has {} samples, expected 1", i, *samples);
  }
}

/// An attribute of the layer's own is one of the node, where ONNX has integers for truth.
Table attributes_of_layer(const NodeImport& node, int64_t hidden, std::vector<std::string> functions,
                          const char* own_attribute) {
  expect_states_of_samples(node);
  const std::string direction = node.text("direction", "forward");
  if (direction == "bidirectional") {
    const std::vector<std::string> once = functions;
    functions.insert(functions.end(), once.begin(), once.end());
  }
  if (node.has_attribute("activations")) functions = node.texts("activations");
  Table attributes = {{"hidden_size", hidden},
                      {"direction", direction},
                      {"activations", activations_text(node, functions)},
                      {"batch_first", node.integer("layout", 0) != 0}};
  if (node.integer("hidden_size", hidden) != hidden)
    fail("hidden_size {} and recurrence weights of {}", node.integer("hidden_size", 0), hidden);
  if (node.has_attribute("clip")) attributes["clip"] = node.number("clip", 0);
  if (own_attribute != nullptr) attributes[own_attribute] = node.integer(own_attribute, 0) != 0;
  return attributes;
}

void set_results(NodeImport& node, const char* op, std::vector<NodeInput> inputs, Table attributes) {
  while (inputs.back().is_absent()) inputs.pop_back();
  const NodeInput result = node.add(op, std::move(inputs), std::move(attributes));
  for (size_t i = 0; i < node.output_count(); ++i) {
    if (node.wants(i)) node.set_output(i, NodeInput::of(result.node, i));
  }
}

void convert(NodeImport& node, const char* op, size_t most_inputs, std::vector<std::string> functions,
             const char* own_attribute) {
  const auto hidden = node.size(2, -1);
  if (!hidden) node.refuse("recurrence weights of open size");
  Table attributes = attributes_of_layer(node, *hidden, std::move(functions), own_attribute);
  std::vector<NodeInput> inputs;
  for (size_t i = 0; i < std::min(node.input_count(), most_inputs); ++i)
    inputs.push_back(node.has_input(i) ? node.input(i) : NodeInput::absent());
  set_results(node, op, std::move(inputs), std::move(attributes));
}

constexpr size_t kMostInputs = 6;

void convert_rnn(NodeImport& node) { convert(node, "rnn", kMostInputs, {"Tanh"}, nullptr); }

void convert_gru(NodeImport& node) {
  convert(node, "gru", kMostInputs, {"Sigmoid", "Tanh"}, "linear_before_reset");
}

void convert_lstm(NodeImport& node) {
  convert(node, "lstm", kMostInputs + 2, {"Sigmoid", "Tanh", "Tanh"}, "input_forget");
}

/// Codes of weights, [directions, in, rows], with a scale for each direction or for each row too, as
/// [directions, rows, in] of what they stand for.
Tensor dequantized_weights(const NodeImport& node, size_t codes_input, size_t scale_input) {
  const Tensor codes = to_dtype(node.expect_constant(codes_input, "weights"), DType::kFloat32);
  const Tensor scale = to_dtype(node.expect_constant(scale_input, "scales"), DType::kFloat32);
  const Tensor zero = to_dtype(node.expect_constant(scale_input + 1, "zero points"), DType::kFloat32);
  if (codes.rank() != 3) fail("weights of shape {}, expected three dimensions", shape_text(codes.shape()));
  const int64_t columns = codes.dim(1);
  const int64_t rows = codes.dim(2);
  const int64_t per_direction = codes.dim(0) == 0 ? 0 : scale.numel() / codes.dim(0);
  const bool fits = scale.numel() == zero.numel() && per_direction * codes.dim(0) == scale.numel() &&
                    (per_direction == 1 || per_direction == rows);
  if (!fits)
    fail("{} scales and {} zero points for weights of shape {}", scale.numel(), zero.numel(),
         shape_text(codes.shape()));
  Tensor result(DType::kFloat32, {codes.dim(0), rows, columns});
  for (int64_t i = 0; i < codes.numel(); ++i) {
    const int64_t direction = i / (rows * columns);
    const int64_t row = i % rows;
    const auto at = static_cast<size_t>(direction * per_direction + (per_direction == 1 ? 0 : row));
    const float steps = codes.values<float>()[static_cast<size_t>(i)] - zero.values<float>()[at];
    const int64_t place = (direction * rows + row) * columns + i / rows % columns;
    result.values<float>()[static_cast<size_t>(place)] = steps * scale.values<float>()[at];
  }
  return result;
}

/// The same as an operand: of one scale a direction, with the format of its codes.
NodeInput weights_operand(NodeImport& node, size_t codes_input, size_t scale_input) {
  const Tensor values = dequantized_weights(node, codes_input, scale_input);
  const NodeInput operand = node.constant_of(values);
  const Tensor scale = to_dtype(node.expect_constant(scale_input, "scales"), DType::kFloat32);
  if (scale.numel() != values.dim(0)) return operand;
  const Tensor zero = to_dtype(node.expect_constant(scale_input + 1, "zero points"), DType::kInt32);
  const bool is_signed = node.type(codes_input).dtype == DType::kInt8;
  const auto scales = scale.values<float>();
  const auto zeros = zero.values<int32_t>();
  QuantSpec spec;
  spec.format = integer_format({.width = 8, .is_signed = is_signed},
                               {{scales.begin(), scales.end()}, {zeros.begin(), zeros.end()}});
  if (scale.numel() > 1) spec.granularity = Granularity::kChannel;
  return node.add_rounding(operand, spec);
}

/// A layer whose input gets a scale at every run. Its states, which ONNX Runtime rounds at every step, stay
/// floats.
void convert_dynamic_lstm(NodeImport& node) {
  constexpr size_t kStates = 4;  // lengths, states and weights from the cell follow
  constexpr size_t kScaleOfWeights = 8;
  constexpr size_t kScaleOfRecurrence = 10;
  node.warn("states stay floats between the steps, where ONNX Runtime rounds them to 8 bits");
  const NodeInput recurrence = weights_operand(node, 2, kScaleOfRecurrence);
  Table attributes = attributes_of_layer(node, node.type_of(recurrence).shape.back(),
                                         {"Sigmoid", "Tanh", "Tanh"}, "input_forget");
  QuantSpec of_input;
  of_input.format = integer_format({.width = 8, .is_signed = false});
  std::vector<NodeInput> inputs = {node.add_rounding(node.input(0), of_input),
                                   weights_operand(node, 1, kScaleOfWeights), recurrence,
                                   node.has_input(3) ? node.input(3) : NodeInput::absent()};
  for (size_t i = kStates; i < kScaleOfWeights; ++i)
    inputs.push_back(node.has_input(i) ? node.input(i) : NodeInput::absent());
  set_results(node, "lstm", std::move(inputs), std::move(attributes));
}

}  // namespace

OnnxConverterList quantized_recurrent_converters() { return {{"DynamicQuantizeLSTM", convert_dynamic_lstm}}; }

OnnxConverterList recurrent_converters() {
  return {{"RNN", convert_rnn}, {"GRU", convert_gru}, {"LSTM", convert_lstm}};
}

}  // namespace detent

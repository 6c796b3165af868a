#include <algorithm>
#include <string>

#include "detent/core/error.h"
#include "detent/graph/recurrent.h"
#include "detent/onnx/converters/converters.h"

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
    text += fmt::format("{}{}", text.empty() ? "" : " ", enum_names(function)[static_cast<size_t>(function)]);
    if (defaults.count > 0)
      text += fmt::format(":{}", next_alpha < alphas.size() ? alphas[next_alpha++] : defaults.alpha);
    if (defaults.count > 1)
      text += fmt::format(":{}", next_beta < betas.size() ? betas[next_beta++] : defaults.beta);
  }
  return text;
}

/// An attribute of the layer's own as one of the node, where ONNX has integers for truth.
void convert(NodeImport& node, const char* op, size_t most_inputs, std::vector<std::string> functions,
             const char* own_attribute) {
  const std::string direction = node.text("direction", "forward");
  if (direction == "bidirectional") {
    const std::vector<std::string> once = functions;
    functions.insert(functions.end(), once.begin(), once.end());
  }
  if (node.has_attribute("activations")) functions = node.texts("activations");
  const auto hidden = node.size(2, -1);
  if (!hidden) node.refuse("recurrence weights of open size");
  Table attributes = {{"hidden_size", *hidden},
                      {"direction", direction},
                      {"activations", activations_text(node, functions)},
                      {"batch_first", node.integer("layout", 0) != 0}};
  if (node.integer("hidden_size", *hidden) != *hidden)
    fail("hidden_size {} and recurrence weights of {}", node.integer("hidden_size", 0), *hidden);
  if (node.has_attribute("clip")) attributes["clip"] = node.number("clip", 0);
  if (own_attribute != nullptr) attributes[own_attribute] = node.integer(own_attribute, 0) != 0;
  std::vector<NodeInput> inputs;
  for (size_t i = 0; i < std::min(node.input_count(), most_inputs); ++i)
    inputs.push_back(node.has_input(i) ? node.input(i) : NodeInput::absent());
  while (inputs.back().is_absent()) inputs.pop_back();
  const NodeInput result = node.add(op, std::move(inputs), std::move(attributes));
  for (size_t i = 0; i < node.output_count(); ++i) {
    if (node.wants(i)) node.set_output(i, NodeInput::of(result.node, i));
  }
}

constexpr size_t kMostInputs = 6;

void convert_rnn(NodeImport& node) { convert(node, "rnn", kMostInputs, {"Tanh"}, nullptr); }

void convert_gru(NodeImport& node) {
  convert(node, "gru", kMostInputs, {"Sigmoid", "Tanh"}, "linear_before_reset");
}

void convert_lstm(NodeImport& node) {
  convert(node, "lstm", kMostInputs + 2, {"Sigmoid", "Tanh", "Tanh"}, "input_forget");
}

}  // namespace

OnnxConverterList recurrent_converters() {
  return {{"RNN", convert_rnn}, {"GRU", convert_gru}, {"LSTM", convert_lstm}};
}

}  // namespace detent

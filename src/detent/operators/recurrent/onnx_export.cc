#include <string>

#include "detent/core/error.h"
#include "detent/graph/operator_arguments.h"
#include "detent/operators/onnx_export.h"

namespace detent {
namespace {

constexpr int64_t kLayoutSince = 14;
constexpr size_t kLengths = 4;
constexpr size_t kFirstState = 5;

/// "hard_sigmoid" is "HardSigmoid" there.
std::string onnx_name(RecurrentActivation::Function function) {
  std::string name;
  bool starts_word = true;
  for (const char c : std::string_view(enum_name(function))) {
    if (c != '_') name += starts_word ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    starts_word = c == '_';
  }
  return name;
}

/// The numbers of those functions that have such, in order.
void add_activations(const NodeExport& node, size_t count, Table& attributes) {
  List names;
  List alphas;
  List betas;
  for (const RecurrentActivation& activation : recurrent_activations(node.node(), count)) {
    names.emplace_back(onnx_name(activation.function));
    const size_t numbers = activation_defaults(activation.function).count;
    if (numbers > 0) alphas.emplace_back(activation.alpha);
    if (numbers > 1) betas.emplace_back(activation.beta);
  }
  attributes["activations"] = Value(names);
  if (!alphas.empty()) attributes["activation_alpha"] = Value(alphas);
  if (!betas.empty()) attributes["activation_beta"] = Value(betas);
}

/// A first state, repeated where it is that of all samples.
std::string first_state(NodeExport& node, size_t index) {
  const std::string state = node.input(index);
  const size_t dim = node.flag("batch_first") ? 0 : 1;
  if (!node.has_input(index) || node.size(index, dim) != 1 || node.size(0, dim) == 1) return state;
  const Shape one = node.type(index).shape;
  const std::string samples =
      node.add("Gather", {node.add("Shape", {node.input(0)}), node.list_of({static_cast<int64_t>(dim)})});
  const OnnxValues shape = dim == 0 ? OnnxValues{samples, node.list_of({one[1], one[2]})}
                                    : OnnxValues{node.list_of({one[0]}), samples, node.list_of({one[2]})};
  return node.add("Expand", {state, node.add("Concat", shape, {{"axis", 0}})});
}

template <const char* kName, size_t kActivations, const char* kOwnAttribute>
void export_recurrent(NodeExport& node) {
  Table attributes = {{"hidden_size", node.integer("hidden_size")}, {"direction", node.choice("direction")}};
  add_activations(node, kActivations * static_cast<size_t>(recurrent_directions(node.node())), attributes);
  if (!node.node().attributes.find("clip")->is_na()) attributes["clip"] = node.number("clip");
  if (kOwnAttribute[0] != '\0') attributes[kOwnAttribute] = node.flag(kOwnAttribute);
  if (node.flag("batch_first")) {
    node.need_opset(kLayoutSince, "samples before steps");
    attributes["layout"] = 1;
  }
  OnnxValues inputs;
  for (size_t i = 0; i < node.input_count(); ++i) {
    const bool is_state = i == kFirstState || i == kFirstState + 1;
    inputs.push_back(i == kLengths ? node.input_as(i, DType::kInt32)
                     : is_state    ? first_state(node, i)
                                   : node.input(i));
  }
  node.emit(kName, std::move(inputs), std::move(attributes));
}

constexpr char kRnn[] = "RNN";
constexpr char kGru[] = "GRU";
constexpr char kLstm[] = "LSTM";
constexpr char kNone[] = "";
constexpr char kLinearBeforeReset[] = "linear_before_reset";
constexpr char kInputForget[] = "input_forget";

}  // namespace

OnnxExporterList recurrent_exporters() {
  return {{"rnn", export_recurrent<kRnn, 1, kNone>},
          {"gru", export_recurrent<kGru, 2, kLinearBeforeReset>},
          {"lstm", export_recurrent<kLstm, 3, kInputForget>}};
}

}  // namespace detent

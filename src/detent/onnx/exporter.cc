#include "detent/onnx/exporter.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "detent/core/error.h"
#include "detent/core/text.h"
#include "detent/graph/node_names.h"
#include "detent/graph/value_sizes.h"
#include "detent/inference/accumulated_sums.h"
#include "detent/onnx/node_export.h"
#include "detent/operators/onnx_export.h"

namespace detent {
namespace {

constexpr int64_t kUsualOpset = 17;
constexpr int64_t kOldestExport = 13;
constexpr int64_t kNewestExport = 25;
constexpr int64_t kAttentionSince = 23;

/// The formats' need, with those in bodies of loops.
int64_t opset_of_formats(const Graph& graph) {
  int64_t opset = kUsualOpset;
  for (const Node& node : graph.nodes()) {
    for (const auto& [operand, quantizer] : node.quantization) {
      if (const auto spec = rounding_of(node, operand))
        opset = std::max(opset, QuantizerExport::least_opset(*spec));
    }
    if (node.body != nullptr) opset = std::max(opset, opset_of_formats(*node.body));
  }
  return opset;
}

int64_t chosen_opset(const Graph& graph, const OnnxExportOptions& options) {
  if (options.opset) {
    if (*options.opset < kOldestExport || *options.opset > kNewestExport)
      fail("opset {}, expected {} to {}", *options.opset, kOldestExport, kNewestExport);
    return *options.opset;
  }
  return has_integers(options.style) ? opset_of_formats(graph) : kUsualOpset;
}

const char* style_name(OnnxStyle style) { return enum_name(style); }

/// A format or style to write such an operand in instead.
std::string what_holds(const QuantSpec& spec, OnnxStyle style, bool is_weight) {
  if (style_obstacle(style, spec, kNewestExport, is_weight).empty())
    return "";  // the message names the opset
  std::vector<std::string> others;
  for (const OnnxStyle other : {OnnxStyle::kQdq, OnnxStyle::kQonnx}) {
    if (style_obstacle(other, spec, kNewestExport, is_weight).empty()) others.emplace_back(style_name(other));
  }
  if (!others.empty()) return fmt::format(" (the style {} holds it)", fmt::join(others, " or "));
  return is_weight
             ? " (no style holds it; qdq holds integers, fp8 and fp4 with scales of the tensor, a channel or "
               "a group, nvfp4, mx_e4m3, mx_e5m2, mx_e2m1 and mx_int8)"
             : " (no style holds it; qdq holds integers, fp8 and fp4 with given scales, qonnx binary too)";
}

/// Names of the outputs: as in the model that the graph comes from, else as the values that they are.
std::vector<std::string> output_names(const Graph& graph) {
  const Node& output = graph.nodes().back();
  std::vector<std::string> names;
  for (size_t i = 0; i < output.inputs.size(); ++i) {
    const bool is_named = i < output.source_names.size() && !output.source_names[i].empty();
    std::string name = is_named ? output.source_names[i] : source_name(graph, output.inputs[i]);
    while (std::ranges::find(names, name) != names.end()) name += "_again";
    names.push_back(name);
  }
  return names;
}

}  // namespace

OnnxExporter::OnnxExporter(const Graph& graph, const OnnxExportOptions& options, int64_t opset)
    : graph_(graph),
      options_(options),
      own_writer_(std::make_unique<OnnxModelWriter>(graph.name())),
      writer_(*own_writer_),
      opset_(opset),
      quantizers_(writer_, options, opset_) {
  refuse_formats();
  first_.types = infer_shapes(graph, with_batch(graph, usual_sizes(graph), 2));
  second_.types = infer_shapes(graph, with_batch(graph, other_sizes(graph), 3));
}

int64_t OnnxExporter::write(const std::filesystem::path& path) {
  // Inputs and outputs have their names first.
  for (const std::string& input : graph_.input_names()) {
    const Node& node = graph_.node(input);
    names_[input] = writer_.new_value(source_name(graph_, NodeInput::of(input)));
    writer_.add_input(names_[input], graph_.input_types().find(node.name)->second);
  }
  for (const std::string& name : output_names(graph_)) writer_.new_value(name);
  export_nodes();
  if (needed_opset_ > opset_ && !options_.opset) return needed_opset_;
  fail_of_problems();
  if (options_.style == OnnxStyle::kQOperator) compute_on_codes(writer_);
  writer_.write(path, opset_, options_.most_bytes_within);
  return opset_;
}

void OnnxExporter::export_nodes() {
  std::unordered_map<std::string, AttentionPattern> attentions;
  if (opset_ >= kAttentionSince) attentions = find_attention(graph_, first_.types);
  std::set<std::string> written;
  for (const auto& [name, pattern] : attentions) written.insert(pattern.inner.begin(), pattern.inner.end());
  for (const Node& node : graph_.nodes()) {
    if (written.contains(node.name)) continue;
    try {
      const auto attention = attentions.find(node.name);
      if (attention != attentions.end()) {
        export_attention(node, attention->second);
      } else {
        export_node(node);
      }
    } catch (const Error& error) {
      refuse(node, error.what());
    }
  }
}

void OnnxExporter::refuse(const Node& node, const std::string& reason) {
  problems_.push_back(fmt::format("node \"{}\" ({}): {}", node.name, node.op, reason));
  for (size_t i = 0; i < result_count(node); ++i) names_.try_emplace(value_name(node.name, i), "");
}

void OnnxExporter::fail_of_problems() const {
  if (problems_.empty()) return;
  fail("{} node{} cannot be written in the style {}, opset {}:\n  {}", problems_.size(),
       problems_.size() == 1 ? "" : "s", style_name(options_.style), opset_, fmt::join(problems_, "\n  "));
}

/// Before anything is computed or written.
void OnnxExporter::refuse_formats() {
  for (const Node& node : graph_.nodes()) {
    if (const std::string accumulator = inexact_accumulator_text(graph_, node); !accumulator.empty())
      refuse(node, accumulator + ", which no operator of ONNX has");
    for (const auto& [operand, quantizer] : node.quantization) {
      const auto spec = rounding_of(node, operand);
      const bool is_weight = node.find_parameter(operand) != nullptr;
      const std::string obstacle =
          spec ? style_obstacle(options_.style, *spec, opset_, is_weight)
               : "no format rounds as its learned parameters say: `detent quantize` rounds weights for good "
                 "(the pass finish_qat)";
      if (obstacle.empty()) continue;
      refuse(node, fmt::format("{}: {}{}", operand, obstacle,
                               spec ? what_holds(*spec, options_.style, is_weight) : ""));
    }
  }
  fail_of_problems();
}

void OnnxExporter::export_node(const Node& node) {
  switch (role_of(node)) {
    case OperatorRole::kInput:
      return round_results(node);
    case OperatorRole::kOutput:
      return loop_ != nullptr ? export_body_outputs(node) : export_outputs(node);
    case OperatorRole::kConstant:
      names_[node.name] = parameter(node, "value", false);
      return round_results(node);
    default:
      break;
  }
  const OnnxNodeExporter exporter = find_onnx_exporter(node.op);
  if (exporter == nullptr) fail("ONNX has no such operator");
  NodeExport step(*this, node);
  exporter(step);
  DETENT_CHECK(step.results().size() == result_count(node), "{} gave {} results", node.op,
               step.results().size());
  for (size_t i = 0; i < step.results().size(); ++i) names_[value_name(node.name, i)] = step.results()[i];
  round_results(node);
}

/// Numbers, since a row in which nothing is seen has equal shares of all, and of conditions would have none.
std::string OnnxExporter::attention_mask(const Node& node, const AttentionPattern& pattern) {
  std::string& known = attention_masks_[value_name(pattern.seen)];
  if (!known.empty()) return known;
  NodeExport step(*this, node);
  known = step.add("Where", {names_.at(value_name(pattern.seen)), step.number_of(Value(0.0)),
                             step.number_of(Value(pattern.unseen))});
  if (first_.types.find(value_name(pattern.seen))->second.shape[2] != 1) return known;
  const std::string one = step.list_of({1});
  const std::string rows =
      step.add("Shape", {names_.at(value_name(pattern.query))}, {{"start", 2}, {"end", 3}});
  return known = step.add("Expand", {known, step.add("Concat", {one, one, rows, one}, {{"axis", 0}})});
}

void OnnxExporter::export_attention(const Node& node, const AttentionPattern& pattern) {
  NodeExport step(*this, node);
  const auto name = [&](const NodeInput& value) { return names_.at(value_name(value)); };
  const std::string keys =
      step.add("Transpose", {name(pattern.keys)}, {{"perm", std::vector<int64_t>{0, 1, 3, 2}}});
  Table attributes{{"scale", 1.0}};
  if (pattern.cap > 0) attributes["softcap"] = pattern.cap;
  step.emit("Attention", {name(pattern.query), keys, name(pattern.values), attention_mask(node, pattern)},
            std::move(attributes));
  names_[value_name(node.name)] = step.results().front();
  round_results(node);
}

void OnnxExporter::round_results(const Node& node) {
  for (size_t i = 0; i < result_count(node); ++i) {
    const auto spec = rounding_of(node, fmt::format("data_out_{}", i));
    const std::string value = value_name(node.name, i);
    if (!spec) continue;
    names_[value] = quantizers_.rounded(names_[value], *spec, first_.types.find(value)->second.shape.size());
  }
}

std::string OnnxExporter::value_of(const Node& node, size_t input) {
  const std::string value = value_name(node.inputs[input]);
  const auto spec = rounding_of(node, fmt::format("data_in_{}", input));
  const std::string& name = names_.at(value);
  return spec ? quantizers_.rounded(name, *spec, first_.types.find(value)->second.shape.size()) : name;
}

std::string OnnxExporter::parameter(const Node& node, const std::string& name, bool transposed) {
  const auto reference =
      std::ranges::find(node.parameters, name, &decltype(node.parameters)::value_type::first);
  const Tensor& tensor = reference->second->tensor;
  const auto spec = rounding_of(node, name);
  if (name == "bias" && graph_.requantization() && !spec) {
    const auto form = node_form(node, *graph_.requantization());
    const auto* sums = form ? std::get_if<SumForm>(&*form) : nullptr;
    if (sums != nullptr)
      return has_integers(options_.style) ? integer_bias(node, *sums) : rounded_bias(node, *sums);
  }
  const std::string how = (transposed ? "transposed " : "") + (spec ? quant_spec_text(*spec) : "");
  std::string& known = initializers_[{&*reference->second, how}];
  if (!known.empty()) return known;
  const std::string key = node.parameter_key(name);
  if (spec) {
    known = quantizers_.rounded(key, tensor, *spec, transposed);
    if (!transposed) quantizers_.note_rounded(known, *spec);
    return known;
  }
  return known = writer_.add_initializer(key, transposed ? transposed_matrix(tensor) : tensor);
}

/// In units of the sums.
std::string OnnxExporter::integer_bias(const Node& node, const SumForm& form) {
  const std::string key = node.parameter_key("bias");
  const bool several = std::ranges::any_of(form.scale, [&](float s) { return s != form.scale.front(); });
  const std::vector<float> scale = several ? form.scale : std::vector{form.scale.front()};
  OnnxValues inputs = {
      writer_.add_initializer(key + "_quantized", Tensor::from({std::ssize(form.bias)}, form.bias)),
      writer_.add_initializer(key + "_scale",
                              Tensor::from(several ? Shape{std::ssize(scale)} : Shape{}, scale))};
  const std::string result = writer_.new_value(key);
  writer_.add_node({.op = "DequantizeLinear",
                    .inputs = std::move(inputs),
                    .outputs = {result},
                    .attributes = several ? Table{{"axis", 0}} : Table{},
                    .name = writer_.new_node_name(key + "_DequantizeLinear")});
  return result;
}

/// The values that these units stand for.
std::string OnnxExporter::rounded_bias(const Node& node, const SumForm& form) {
  std::vector<float> values;
  for (size_t c = 0; c < form.bias.size(); ++c)
    values.push_back(static_cast<float>(form.bias[c]) * form.scale[c]);
  return writer_.add_initializer(node.parameter_key("bias"), Tensor::from({std::ssize(values)}, values));
}

TensorType OnnxExporter::type_of(const NodeInput& value, std::span<const std::string> sizes) const {
  const Operand& first = first_.types.find(value_name(value))->second;
  const Operand& second = second_.types.find(value_name(value))->second;
  TensorType type{.dtype = first.dtype, .shape = {}};
  for (size_t d = 0; d < first.shape.size(); ++d) {
    if (first.shape[d] == second.shape[d] && first.shape[d] != kOpenSize) {
      type.shape.emplace_back(first.shape[d]);
    } else if (sizes[d] == "?") {
      type.shape.emplace_back(fmt::format("{}_{}", source_name(graph_, value), d));
    } else {
      type.shape.emplace_back(sizes[d]);
    }
  }
  return type;
}

/// A value that a node computes takes the name of the output; others, and those that are several outputs, are
/// passed on.
void OnnxExporter::export_outputs(const Node& node) {
  const std::vector<std::string> wanted = output_names(graph_);
  std::map<std::string, std::string> names;
  OnnxValues values;
  for (size_t i = 0; i < wanted.size(); ++i) values.push_back(value_of(node, i));
  if (!problems_.empty()) return;
  const std::vector<std::vector<std::string>> sizes = open_shapes(graph_, node.inputs);
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (values[i] != wanted[i]) {
      const bool takes_name =
          writer_.is_computed(values[i]) && names.try_emplace(values[i], wanted[i]).second;
      if (!takes_name)
        writer_.add_node({.op = "Identity",
                          .inputs = {values[i]},
                          .outputs = {wanted[i]},
                          .name = writer_.new_node_name(wanted[i] + "_Identity")});
    }
    writer_.add_output(wanted[i], type_of(node.inputs[i], sizes[i]));
  }
  writer_.rename_values(names);
}

std::string style_obstacle(OnnxStyle style, const QuantSpec& spec, bool is_weight) {
  return style_obstacle(style, spec, kNewestExport, is_weight);
}

namespace {

/// Errors of `work` name the file.
template <class Work>
void for_file(const std::filesystem::path& path, const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    const std::string text = error.what();
    if (text.starts_with(printable(path.string()))) throw;
    fail("{}: {}", path.string(), text);
  }
}

}  // namespace

void export_onnx(const Graph& graph, const std::filesystem::path& path, const OnnxExportOptions& options) {
  verify(graph);
  for_file(path, [&] {
    int64_t opset = chosen_opset(graph, options);
    for (int64_t tried = 0; tried < opset;) {
      tried = opset;
      opset = OnnxExporter(graph, options, tried).write(path);
    }
  });
}

void check_onnx_export(const Graph& graph, const std::filesystem::path& path,
                       const OnnxExportOptions& options) {
  for_file(path, [&] { OnnxExporter(graph, options, chosen_opset(graph, options)); });
}

}  // namespace detent

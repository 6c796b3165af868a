#include "case.h"

#include <algorithm>
#include <map>
#include <set>

namespace detent {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;
using Names = std::map<std::string, std::string>;

constexpr const char* kOwnDomain = "own";
constexpr int64_t kFormat =
    10;  // the version of the file format that has defaults of attributes, and overloads
constexpr int kOverloadOfFunction = 13;
constexpr int kOverloadOfNode = 8;

void rename(std::string& name, const Names& names) {
  if (const auto found = names.find(name); found != names.end()) name = found->second;
}

void rename_all(onnx::NodeProto& node, const Names& names) {
  for (std::string& name : *node.mutable_input()) rename(name, names);
  for (std::string& name : *node.mutable_output()) rename(name, names);
  for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
    if (!attribute.has_g()) continue;
    for (onnx::NodeProto& step : *attribute.mutable_g()->mutable_node()) rename_all(step, names);
  }
}

/// Neighbouring nodes, what they read that others give, and what others read of what they give.
struct Span {
  int first = 0;
  int count = 0;
  std::vector<std::string> reads;
  std::vector<std::string> writes;
};

Span drawn_span(const Nodes& nodes, const std::set<std::string>& outputs, Random& random) {
  constexpr int kMostNodes = 5;
  Span span;
  span.first = static_cast<int>(random.between(0, nodes.size() - 1));
  span.count = static_cast<int>(random.between(1, std::min(kMostNodes, nodes.size() - span.first)));
  std::set<std::string> reads;
  std::set<std::string> given;
  std::vector<std::string> in_order;
  for (int i = span.first; i < span.first + span.count; ++i) {
    insert_reads(nodes[i], reads);
    for (const std::string& output : nodes[i].output()) {
      if (!output.empty() && given.insert(output).second) in_order.push_back(output);
    }
  }
  std::set<std::string> needed = outputs;
  for (int i = span.first + span.count; i < nodes.size(); ++i) insert_reads(nodes[i], needed);
  for (const std::string& name : reads) {
    if (!given.contains(name)) span.reads.push_back(name);
  }
  for (const std::string& name : in_order) {
    if (needed.contains(name)) span.writes.push_back(name);
  }
  if (span.writes.empty()) span.writes = {in_order.back()};
  // Computed values come before constants, after which a case that fails would not be reduced.
  std::ranges::stable_sort(span.writes, std::greater(), [](const std::string& name) { return name[0]; });
  return span;
}

void replace(Nodes& nodes, const Span& span, const std::vector<onnx::NodeProto>& by) {
  Nodes result;
  for (int i = 0; i < nodes.size(); ++i) {
    if (i == span.first) {
      for (const onnx::NodeProto& node : by) *result.Add() = node;
    }
    if (i < span.first || i >= span.first + span.count) *result.Add() = nodes[i];
  }
  nodes.Swap(&result);
}

/// A function in the making, and the node that calls it.
class FunctionWriter {
 public:
  /// ONNX Runtime tells functions of one name apart where the graph itself calls them.
  FunctionWriter(onnx::ModelProto& model, Random& random, bool may_be_overload)
      : model_(model), random_(random) {
    function_.set_domain(kOwnDomain);
    function_.set_name(fmt::format("Own{}", model.functions_size()));
    if (may_be_overload && random.chance(0.3)) {
      const std::string overload = fmt::format("of_{}", model.functions_size());
      function_.set_name("Own");
      set_overload(function_, kOverloadOfFunction, overload);
      set_overload(call_, kOverloadOfNode, overload);
    }
    for (const auto& import : model.opset_import()) *function_.add_opset_import() = import;
    call_.set_op_type(function_.name());
    call_.set_domain(kOwnDomain);
  }

  /// The call that stands for the nodes.
  onnx::NodeProto write(const Nodes& nodes, const Span& span) {
    // Names inside are names outside of something else, which must not matter.
    Names names;
    const auto inner_name = [&](const std::string& outer) {
      return names.try_emplace(outer, fmt::format("{}{}", random_.of({"x", "v", "c"}), names.size()))
          .first->second;
    };
    for (const std::string& read : span.reads) {
      function_.add_input(inner_name(read));
      call_.add_input(read);
    }
    for (int i = span.first; i < span.first + span.count; ++i) {
      for (const std::string& output : nodes[i].output()) {
        if (!output.empty()) inner_name(output);
      }
    }
    for (const std::string& name : span.writes) {
      function_.add_output(names.at(name));
      call_.add_output(name);
    }
    add_unread_output(nodes[span.first + span.count - 1].output(0), span, names);
    for (int i = span.first; i < span.first + span.count; ++i) {
      onnx::NodeProto& node = *function_.add_node() = nodes[i];
      rename_all(node, names);
      take_absent_inputs(node);
      take_attributes(node);
    }
    while (call_.input_size() > 0 && call_.input(call_.input_size() - 1).empty() && random_.chance(0.7))
      call_.mutable_input()->RemoveLast();
    return call_;
  }

  onnx::FunctionProto& function() { return function_; }

 private:
  /// A further result, which the call has no name for.
  void add_unread_output(const std::string& output, const Span& span, const Names& names) {
    if (!random_.chance(0.2) || std::ranges::find(span.writes, output) != span.writes.end()) return;
    function_.add_output(names.at(output));
    if (random_.chance(0.5)) call_.add_output("");
  }

  /// Absent inputs of the node become inputs of the function that its call leaves out.
  void take_absent_inputs(onnx::NodeProto& node) {
    static const std::map<std::string, int> optional_after = {
        {"Clip", 3}, {"Conv", 3}, {"Gemm", 3}, {"ReduceSum", 2}, {"Trilu", 2}, {"QuantizeLinear", 3}};
    const auto found = optional_after.find(node.op_type());
    const bool has_inputs = found != optional_after.end() && opset() >= 13 && random_.chance(0.5);
    for (int i = node.input_size(); has_inputs && i < found->second; ++i) node.add_input("");
    for (std::string& input : *node.mutable_input()) {
      if (!input.empty() || !random_.chance(0.5)) continue;
      input = fmt::format("absent{}", function_.input_size());
      function_.add_input(input);
      call_.add_input("");
    }
    while (node.input_size() > 0 && node.input(node.input_size() - 1).empty())
      node.mutable_input()->RemoveLast();
  }

  void take_attributes(onnx::NodeProto& node) {
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) {
        for (onnx::NodeProto& step : *attribute.mutable_g()->mutable_node()) take_attributes(step);
      } else if (!attribute.ref_attr_name().empty()) {
        pass_on(attribute);
      } else if (random_.chance(0.4)) {
        take_attribute(attribute);
      }
    }
  }

  /// To a call within a function, whose attribute is one of the function around it.
  void pass_on(const onnx::AttributeProto& attribute) {
    const std::string& name = attribute.ref_attr_name();
    if (std::ranges::find(function_.attribute(), name) != function_.attribute().end()) return;
    function_.add_attribute(name);
    onnx::AttributeProto& given = *call_.add_attribute();
    given.set_name(name);
    given.set_type(attribute.type());
    given.set_ref_attr_name(name);
  }

  /// The function's attribute: given by the call, or by a default.
  void take_attribute(onnx::AttributeProto& attribute) {
    const std::string name = fmt::format("a{}_of_{}", attributes_++, function_.name());
    onnx::AttributeProto given = attribute;
    given.set_name(name);
    if (random_.chance(0.5)) {
      add_default_attribute(function_, given);
    } else {
      function_.add_attribute(name);
      *call_.add_attribute() = given;
    }
    onnx::AttributeProto reference;
    reference.set_name(attribute.name());
    reference.set_type(attribute.type());
    reference.set_ref_attr_name(name);
    attribute = reference;
  }

  int64_t opset() const {
    for (const auto& import : model_.opset_import()) {
      if (import.domain().empty()) return import.version();
    }
    return 0;
  }

  onnx::ModelProto& model_;
  Random& random_;
  onnx::FunctionProto function_;
  onnx::NodeProto call_;
  int attributes_ = 0;
};

void import_own(onnx::ModelProto& model) {
  for (const auto& import : model.opset_import()) {
    if (import.domain() == kOwnDomain) return;
  }
  auto& import = *model.add_opset_import();
  import.set_domain(kOwnDomain);
  import.set_version(1);
}

/// Some of the function's nodes become a function that it calls.
void wrap_within(onnx::ModelProto& model, Random& random) {
  onnx::FunctionProto& outer = *model.mutable_functions(model.functions_size() - 1);
  const std::set<std::string> outputs(outer.output().begin(), outer.output().end());
  const Span span = drawn_span(outer.node(), outputs, random);
  FunctionWriter writer(model, random, false);
  const onnx::NodeProto call = writer.write(outer.node(), span);
  replace(*outer.mutable_node(), span, {call});
  *model.add_functions() = writer.function();
}

std::set<std::string> output_names(const onnx::GraphProto& graph) {
  std::set<std::string> names;
  for (const auto& output : graph.output()) names.insert(output.name());
  return names;
}

/// A call of the same function with the same operands, whose results are outputs.
onnx::NodeProto called_again(Case& generated, const onnx::NodeProto& call) {
  onnx::NodeProto again = call;
  for (std::string& output : *again.mutable_output()) {
    if (output.empty()) continue;
    const auto found = std::ranges::find(generated.values, output, &GeneratedValue::name);
    *generated.plain.add_node() = onnx_node("Identity", {output}, {output + "_again"});
    output += "_again";
    if (found == generated.values.end() || found->dtype == DType::kBFloat16) continue;
    GeneratedValue value = *found;
    value.name = output;
    *generated.model.mutable_graph()->add_output() = output_info(value);
    generated.values.push_back(value);
    generated.outputs.push_back(value);
  }
  return again;
}

void wrap_in_function(Case& generated, Random& random, bool is_last) {
  onnx::ModelProto& model = generated.model;
  onnx::GraphProto& graph = *model.mutable_graph();
  import_own(model);
  const Span span = drawn_span(graph.node(), output_names(graph), random);
  FunctionWriter writer(model, random, is_last);
  std::vector<onnx::NodeProto> calls = {writer.write(graph.node(), span)};
  *model.add_functions() = writer.function();
  if (is_last && random.chance(0.3)) calls.push_back(called_again(generated, calls[0]));
  replace(*graph.mutable_node(), span, calls);
  while (random.chance(0.4)) wrap_within(model, random);
}

/// A truth that is known before the graph runs, as a constant or computed of such; the nodes that give it.
std::string known_truth(bool truth, const std::string& name, onnx::GraphProto& graph,
                        std::vector<onnx::NodeProto>& nodes, Random& random) {
  Tensor tensor(DType::kBool, random.chance(0.7) ? Shape{} : Shape{1});
  const bool turns = random.chance(0.4);
  tensor.values<bool>()[0] = truth != turns;
  const std::string given = turns ? name + "_not" : name;
  if (random.chance(0.5)) {
    *graph.add_initializer() = tensor_proto(given, tensor);
  } else {
    nodes.push_back(onnx_node("Constant", {}, {given}, {{"value", tensor_proto("", tensor)}}));
  }
  if (turns) nodes.push_back(onnx_node("Not", {given}, {name}));
  return name;
}

onnx::GraphProto other_branch(const std::vector<GeneratedValue>& outputs, const std::string& suffix) {
  onnx::GraphProto graph;
  graph.set_name("other" + suffix);
  for (const GeneratedValue& output : outputs) {
    GeneratedValue none = output;
    none.name += suffix + "_other";
    *graph.add_node() = onnx_node("Constant", {}, {none.name},
                                  {{"value", tensor_proto("", Tensor(output.dtype, output.shape))}});
    *graph.add_output() = output_info(none);
  }
  return graph;
}

void wrap_in_branch(Case& generated, Random& random, int number) {
  onnx::GraphProto& graph = *generated.model.mutable_graph();
  const Span span = drawn_span(graph.node(), output_names(graph), random);
  std::vector<GeneratedValue> outputs;
  for (const std::string& name : span.writes) {
    const auto found = std::ranges::find(generated.values, name, &GeneratedValue::name);
    if (found == generated.values.end() || found->dtype == DType::kBFloat16 || !found->has_known_shape)
      return;
    outputs.push_back(*found);
  }
  const std::string suffix = fmt::format("_in{}", number);
  Names names;
  onnx::GraphProto body;
  body.set_name("taken" + suffix);
  for (int i = span.first; i < span.first + span.count; ++i) {
    for (const std::string& output : graph.node(i).output()) {
      if (!output.empty()) names[output] = output + suffix;
    }
    onnx::NodeProto& node = *body.add_node() = graph.node(i);
    rename_all(node, names);
  }
  for (const GeneratedValue& output : outputs) {
    GeneratedValue inner = output;
    inner.name = names.at(output.name);
    *body.add_output() = output_info(inner);
  }
  const bool truth = random.chance(0.5);
  const onnx::GraphProto other = other_branch(outputs, suffix);
  std::vector<onnx::NodeProto> nodes;
  const std::string condition = known_truth(truth, fmt::format("c_truth{}", number), graph, nodes, random);
  nodes.push_back(onnx_node("If", {condition}, span.writes,
                            {{"then_branch", truth ? body : other}, {"else_branch", truth ? other : body}}));
  replace(*graph.mutable_node(), span, nodes);
}

}  // namespace

void wrap_nodes(Case& generated, Random& random) {
  if (generated.model.graph().node_size() == 0) return;
  generated.model.set_ir_version(kFormat);
  for (int64_t i = random.between(1, 3); i > 0; --i) {
    if (random.chance(0.4)) {
      wrap_in_branch(generated, random, static_cast<int>(i));
    } else {
      wrap_in_function(generated, random, i == 1);
    }
  }
}

}  // namespace detent

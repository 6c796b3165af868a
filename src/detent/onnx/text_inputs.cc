#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include <fmt/ranges.h>
#include <onnx/onnx_pb.h>

#include "detent/core/text.h"
#include "detent/onnx/import_steps.h"
#include "detent/onnx/tensor_data.h"

namespace detent {
namespace {

/// Values, and the nodes that read one of them.
struct Followers {
  std::set<std::string> values = {};
  std::set<const onnx::NodeProto*> nodes = {};
};

std::vector<std::string> text_inputs(const onnx::GraphProto& graph) {
  std::set<std::string> initializers;
  for (const onnx::TensorProto& tensor : graph.initializer()) initializers.insert(tensor.name());
  std::vector<std::string> names;
  for (const onnx::ValueInfoProto& input : graph.input()) {
    const bool is_text = input.type().tensor_type().elem_type() == kOnnxText;
    if (is_text && !initializers.contains(input.name())) names.push_back(input.name());
  }
  return names;
}

/// These values, and all that is computed from one of them.
Followers followers_of(const onnx::GraphProto& graph, std::vector<std::string> values) {
  std::map<std::string, std::vector<const onnx::NodeProto*>> readers;
  for (const onnx::NodeProto& node : graph.node()) {
    std::set<std::string> names;
    collect_reads(node, names);
    for (const std::string& name : names) readers[name].push_back(&node);
  }
  Followers found{.values = {values.begin(), values.end()}};
  while (!values.empty()) {
    const std::string value = std::move(values.back());
    values.pop_back();
    for (const onnx::NodeProto* const node : readers[value]) {
      if (!found.nodes.insert(node).second) continue;
      for (const std::string& output : node->output())
        if (!output.empty() && found.values.insert(output).second) values.push_back(output);
    }
  }
  return found;
}

/// In quotes, one after the other.
template <class List>
std::string quoted_names(const List& values, const std::set<std::string>& among) {
  std::vector<std::string> names;
  for (const auto& value : values)
    if (among.contains(value.name())) names.push_back(fmt::format("\"{}\"", printable_line(value.name())));
  return fmt::format("{}", fmt::join(names, ", "));
}

template <class List, class Predicate>
void erase_where(List& list, Predicate goes) {
  list.erase(std::remove_if(list.begin(), list.end(), goes), list.end());
}

}  // namespace

std::string leave_out_texts(onnx::GraphProto& graph) {
  const std::vector<std::string> inputs = text_inputs(graph);
  if (inputs.empty()) return "";
  const Followers followers = followers_of(graph, inputs);
  const auto goes = [&](const onnx::ValueInfoProto& value) {
    return followers.values.contains(value.name());
  };
  if (std::ranges::all_of(graph.output(), goes)) return "";
  std::string text = quoted_names(graph.input(), followers.values);
  const std::string outputs = quoted_names(graph.output(), followers.values);
  if (!outputs.empty()) text += fmt::format(", and of the outputs what follows from them: {}", outputs);
  std::set<std::string> given;  // by the nodes that go, which move while they are erased
  for (const onnx::NodeProto* const node : followers.nodes)
    given.insert(node->output().begin(), node->output().end());
  given.erase("");
  erase_where(*graph.mutable_node(), [&](const onnx::NodeProto& node) {
    return std::ranges::any_of(node.output(), [&](const auto& name) { return given.contains(name); });
  });
  erase_where(*graph.mutable_input(), goes);
  erase_where(*graph.mutable_output(), goes);
  return text;
}

}  // namespace detent

#include "detent/passes/staged_runs/executor_in_parts.h"

#include <algorithm>
#include <set>

#include "detent/core/error.h"
#include "detent/graph/value_sizes.h"

namespace detent {

namespace {

/// Nothing of networks that take one number of samples alone.
std::optional<ValueTypes> values_of_two_samples(const Graph& graph) {
  const auto is_batch = [](const Dimension& size) { return size.symbol == kBatchName; };
  const auto takes_batches = [&](const auto& input) {
    return std::ranges::any_of(input.second.shape, is_batch);
  };
  try {
    if (std::ranges::any_of(graph.input_types(), takes_batches)) return infer_shapes(graph, 2);
    // Samples that run one at a time may have several rows, under another name.
    const NamedSizes usual = usual_sizes(graph);
    const NamedSizes of_two = with_batch(graph, usual, 2);
    return of_two == usual ? std::nullopt : std::optional(infer_shapes(graph, of_two));
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// Parts can be cut too.
std::string free_prefix(const Graph& graph) {
  std::string prefix = "captured_value_";
  while (std::ranges::any_of(graph.nodes(), [&](const Node& node) { return node.name.starts_with(prefix); }))
    prefix.insert(0, "again_");
  return prefix;
}

}  // namespace

GraphCut::GraphCut(const Graph& graph)
    : graph_(graph),
      captured_(free_prefix(graph)),
      values_(infer_shapes(graph)),
      values_of_others_(infer_shapes(graph, other_sizes(graph))),
      values_of_two_(values_of_two_samples(graph)) {
  find_last_readers();
}

std::string GraphCut::capture_name(size_t index) const { return fmt::format("{}{}", captured_, index); }

bool GraphCut::is_recomputed(const Node& node) const {
  if (role_of(node) == OperatorRole::kInput) return false;
  if (node.inputs.empty() || result_count(node) > 1) return true;
  const Operand& value = values_.at(node.name);
  if (value.dtype != DType::kFloat32) return true;  // which observers do not see
  if (!value.is_tensor() || value.is_open() || value.shape.empty() || value.shape[0] != 1) return true;
  if (!values_of_two_) return false;
  Shape of_two = value.shape;
  of_two[0] = 2;
  return values_of_two_->at(node.name).shape != of_two;
}

/// Backwards: what is computed again is read until its own last reader.
void GraphCut::find_last_readers() {
  const std::span<const Node> nodes = graph_.nodes();
  is_recomputed_.resize(nodes.size());
  last_reader_.resize(nodes.size());
  for (size_t i = nodes.size(); i-- > 0;) {
    is_recomputed_[i] = role_of(nodes[i]) != OperatorRole::kOutput && is_recomputed(nodes[i]);
    const size_t last = is_recomputed_[i] ? std::max(i, last_reader_[i]) : i;
    for (const NodeInput& input : nodes[i].inputs) {
      if (input.is_constant()) continue;
      size_t& of_source = last_reader_[graph_.position(input.node)];
      of_source = std::max(of_source, last);
    }
  }
}

bool GraphCut::is_read_from(size_t position, size_t index) const {
  return position < index && last_reader_[position] >= index && !is_recomputed_[position];
}

std::vector<std::string> GraphCut::read_from(size_t index) const {
  std::vector<std::string> names;
  for (size_t i = 0; i < index; ++i)
    if (is_read_from(i, index)) names.push_back(graph_.nodes()[i].name);
  std::ranges::sort(names);
  return names;
}

Graph GraphCut::part_of(const Graph& graph, const std::function<bool(const std::string&)>& is_there,
                        const std::vector<NodeInput>& captured) const {
  std::set<std::string> needed;
  std::set<std::string> taken;
  const auto need = [&](const auto& self, const std::string& name) -> void {
    if (is_there(name)) {
      taken.insert(name);
    } else if (needed.insert(name).second) {
      for (const NodeInput& input : graph.node(name).inputs) {
        if (!input.is_constant()) self(self, input.node);
      }
    }
  };
  for (const NodeInput& value : captured) need(need, value.node);
  Graph part(graph.name());
  part.set_requantization(graph.requantization());
  for (const std::string& name : taken) {
    if (const auto given = graph.input_types().find(name); given != graph.input_types().end()) {
      part.add_input(name, given->second);
      continue;
    }
    const Operand& value = values_.at(name);
    TensorType type{value.dtype, {value.shape.begin(), value.shape.end()}};
    DETENT_CHECK(!value.shape.empty() && value.shape[0] == 1, "node {}: a value of shape {} is no batch",
                 name, shape_text(value.shape));
    const Shape& other = values_of_others_.at(name).shape;
    for (size_t d = 1; d < value.shape.size(); ++d) {
      if (value.shape[d] != other.at(d))
        type.shape[d] = Dimension(fmt::format("{}_{}", name, d), value.shape[d]);
    }
    type.shape[0] = kBatchName;
    part.add_input(name, std::move(type));
  }
  for (const Node& node : graph.nodes()) {
    if (needed.contains(node.name)) part.add(node);
  }
  for (size_t i = 0; i < captured.size(); ++i) {
    Node node;
    node.name = capture_name(i);
    node.op = "identity";
    node.inputs = {captured[i]};
    part.add(std::move(node));
  }
  Node output;
  output.name = "output";
  output.op = "output";
  output.mase_type = MaseType::kOutput;
  output.inputs = {NodeInput::of(part.nodes().back().name)};
  part.add(std::move(output));
  return part;
}

}  // namespace detent

#include <algorithm>

#include "detent/core/error.h"
#include "detent/graph/operators.h"
#include "detent/passes/passes.h"

namespace detent {
namespace {

void init_metadata(Graph& graph, const NoOptions&, PassContext&) {
  for (Node& node : graph.nodes()) {
    node.metadata = Metadata{};
    node.metadata.hardware = HardwareMetadata{};
  }
}

/// A format's name and the values of its fields, in their order; ("float", [32]) without one.
void describe_type(const QuantSpec* spec, OperandInfo& info) {
  if (spec == nullptr) return;
  info.type = std::string(format_name(spec->format));
  info.precision.clear();
  std::visit(
      [&](const auto& format) {
        for (const auto& [key, value] : write_fields(format)) info.precision.push_back(value);
      },
      spec->format);
}

OperandInfo describe_operand(const Operand& operand) {
  OperandInfo info;
  info.size = operand.shape;
  info.value = operand.value;
  return info;
}

OperandInfo describe_constant(const Value& value) {
  OperandInfo info;
  info.type = "fixed";
  info.precision = {Value(1), Value(0)};
  info.size = {1};
  info.from = "NA";
  info.value = value;
  return info;
}

/// Inputs in MASE's order: the first, then constants, then the other nodes' results.
std::vector<size_t> listed_input_order(const Node& node) {
  std::vector<size_t> order;
  for (const bool constants : {true, false}) {
    for (size_t i = 1; i < node.inputs.size(); ++i) {
      if (node.inputs[i].is_constant() == constants) order.push_back(i);
    }
  }
  if (!node.inputs.empty()) order.insert(order.begin(), 0);
  return order;
}

CommonMetadata describe_node(const Node& node, const std::map<std::string, Operand, std::less<>>& results) {
  CommonMetadata common;
  for (const size_t i : listed_input_order(node)) {
    const NodeInput& input = node.inputs[i];
    const std::string operand = fmt::format("data_in_{}", i);
    OperandInfo info =
        input.is_constant() ? describe_constant(input.constant) : describe_operand(results.at(input.node));
    if (!input.is_constant()) info.from = input.node;
    describe_type(node.find_quantization(operand), info);
    common.args[operand] = std::move(info);
  }
  for (const auto& [name, parameter] : node.parameters) {
    if (!parameter.trainable) continue;
    OperandInfo info;
    info.size = parameter.tensor.shape();
    describe_type(node.find_quantization(name), info);
    common.args[name] = std::move(info);
  }
  if (role_of(node) != OperatorRole::kOutput) {
    OperandInfo info = describe_operand(results.at(node.name));
    describe_type(node.find_quantization("data_out_0"), info);
    common.results["data_out_0"] = std::move(info);
  }
  return common;
}

void add_common_metadata(Graph& graph, const NoOptions&, PassContext&) {
  const auto results = infer_shapes(graph);
  for (Node& node : graph.nodes()) node.metadata.common = describe_node(node, results);
}

/// An empty statistics table for every operand that can have some: inputs from other nodes, parameters and
/// running statistics, results. The numbers that `size` gives have none.
void add_software_metadata(Graph& graph, const NoOptions&, PassContext&) {
  for (Node& node : graph.nodes()) {
    SoftwareMetadata software;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!node.inputs[i].is_constant()) software.args[fmt::format("data_in_{}", i)] = Table();
    }
    for (const auto& [name, parameter] : node.parameters) software.args[name] = Table();
    const OperatorRole role = role_of(node);
    if (role != OperatorRole::kOutput && role != OperatorRole::kNumber)
      software.results["data_out_0"] = Table();
    node.metadata.software = std::move(software);
  }
}

/// One node's metadata against what the graph says; every message names node and operand.
void verify_node(const Node& node, const CommonMetadata& expected, const PassContext& context) {
  const std::string where = fmt::format("{}: node \"{}\"", context.where, node.name);
  if (!node.metadata.common) fail("{}: no common metadata; run add_common_metadata first", where);
  const auto check = [&](const OperandMap<OperandInfo>& own, const OperandMap<OperandInfo>& wanted,
                         const char* side) {
    for (const auto& [operand, info] : wanted) {
      const OperandInfo* found = own.find(operand);
      if (found == nullptr) fail("{}: {} \"{}\" is missing", where, side, operand);
      if (found->size != info.size) {
        fail("{}: {} \"{}\" has size {}, expected {}", where, side, operand, shape_text(found->size),
             shape_text(info.size));
      }
      if (found->from != info.from) {
        fail("{}: {} \"{}\" is from \"{}\", expected \"{}\"", where, side, operand,
             found->from.value_or("NA"), info.from.value_or("NA"));
      }
      if (found->type != info.type || found->precision != info.precision) {
        fail("{}: {} \"{}\" is {} {}, expected {} {}", where, side, operand, found->type,
             value_text(found->precision), info.type, value_text(info.precision));
      }
    }
    for (const auto& [operand, info] : own) {
      if (wanted.find(operand) == nullptr)
        fail("{}: {} \"{}\" does not exist in the graph", where, side, operand);
    }
  };
  check(node.metadata.common->args, expected.args, "argument");
  check(node.metadata.common->results, expected.results, "result");
}

void verify_common_metadata(Graph& graph, const NoOptions&, PassContext& context) {
  verify(graph);
  const auto results = infer_shapes(graph);
  for (const Node& node : graph.nodes()) verify_node(node, describe_node(node, results), context);
}

}  // namespace

PassInfo init_metadata_pass() {
  return make_pass("init_metadata", PassKind::kAnalysis, "empties the metadata of every node", init_metadata);
}

PassInfo add_common_metadata_pass() {
  return make_pass("add_common_metadata", PassKind::kAnalysis,
                   "types, precisions, sizes and origins of every operand", add_common_metadata);
}

PassInfo add_software_metadata_pass() {
  return make_pass("add_software_metadata", PassKind::kAnalysis, "empty statistics for every operand",
                   add_software_metadata);
}

PassInfo verify_common_metadata_pass() {
  return make_pass("verify_common_metadata", PassKind::kAnalysis,
                   "checks the common metadata against the graph", verify_common_metadata);
}

}  // namespace detent

#include "detent/onnx/import_steps.h"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <array>
#include <exception>
#include <set>
#include <unordered_map>

#include "detent/core/error.h"
#include "detent/graph/operators.h"
#include "detent/onnx/import_onnx.h"
#include "detent/onnx/importer.h"
#include "detent/onnx/node_import.h"

// Control flow becomes nodes of the one graph: bodies of loops are written out, once for each iteration, and
// where a condition is known only at run time both branches are computed and one is chosen. So whatever runs
// or quantizes graphs takes them. Loops whose number of iterations is not known are nodes (kept_loops.cc).

namespace detent {
namespace {

/// Dimensions whose sizes are not known to be the same.
std::vector<size_t> differing_dims(const TriedTypes& a, const TriedTypes& b) {
  std::vector<size_t> dims;
  for (size_t d = 0; d < a.first.shape.size(); ++d) {
    const bool is_same = a.first.shape[d] == b.first.shape[d] && a.second.shape[d] == b.second.shape[d];
    if (!is_same || a.first.shape[d] == kOpenSize) dims.push_back(d);
  }
  return dims;
}

/// One of two values that differ in the size of a dimension: a part of both, one after the other.
NodeInput chosen_part(NodeImport& import, const NodeInput& condition, const NodeInput& value,
                      const NodeInput& otherwise, size_t dim) {
  const auto axis = static_cast<int64_t>(dim);
  const NodeInput size = import.size_of(value, axis);
  const NodeInput both = import.add("cat", {value, otherwise}, {{"dim", axis}});
  const NodeInput zero = import.constant_of(Tensor::from<int64_t>({1}, {0}));
  const NodeInput start = import.add("where", {condition, zero, size});
  const NodeInput end = import.add("where", {condition, size, import.size_of(both, axis)});
  return import.add("dynamic_slice", {both, start, end, NodeImport::list_of({axis})});
}

constexpr const char* kShapeAdvice =
    "load the network with --shape (Python: shapes) as the branch takes them";

/// The message; "" of none.
std::string text_of(const std::exception_ptr& refusal) {
  if (!refusal) return "";
  try {
    std::rethrow_exception(refusal);
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

bool lacks_branches(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(), [](const Node& node) {
    return node.op == "assert" && text_attribute(node, "message").ends_with(kShapeAdvice);
  });
}

void collect_reads(const onnx::NodeProto& node, std::set<std::string>& names) {
  names.insert(node.input().begin(), node.input().end());
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    for (const onnx::NodeProto& inner : attribute.g().node()) collect_reads(inner, names);
    // A branch may give a value of the scope around it.
    for (const onnx::ValueInfoProto& output : attribute.g().output()) names.insert(output.name());
  }
}

const onnx::GraphProto& subgraph(const onnx::NodeProto& node, const char* name) {
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (attribute.name() == name && attribute.has_g()) return attribute.g();
  }
  fail("attribute \"{}\" is missing", name);
}

NodeInput scalar_condition(NodeImport& import, NodeInput condition) {
  const size_t rank = import.type_of(condition).shape.size();
  if (rank > 1) fail("a condition of {} dimensions, expected one bool", rank);
  return rank == 0 ? condition : import.add("squeeze", {std::move(condition), NodeImport::list_of({0})});
}

bool has_subgraphs(const onnx::NodeProto& node) {
  if (!node.domain().empty() && node.domain() != "ai.onnx") return false;
  const std::string& op = node.op_type();
  return op == "If" || op == "Loop" || op == "Scan" || op == "SequenceMap";
}

std::vector<const onnx::NodeProto*> in_execution_order(const onnx::GraphProto& graph) {
  std::unordered_map<std::string, int> giver;
  for (int i = 0; i < graph.node_size(); ++i) {
    for (const std::string& output : graph.node(i).output()) giver.emplace(output, i);
  }
  std::vector<std::vector<int>> readers(static_cast<size_t>(graph.node_size()));
  std::vector<int> missing(readers.size(), 0);
  std::set<int> ready;
  for (int i = 0; i < graph.node_size(); ++i) {
    std::set<std::string> names;
    collect_reads(graph.node(i), names);
    for (const std::string& name : names) {
      const auto found = name.empty() ? giver.end() : giver.find(name);
      if (found == giver.end()) continue;
      readers[static_cast<size_t>(found->second)].push_back(i);
      ++missing[static_cast<size_t>(i)];
    }
    if (missing[static_cast<size_t>(i)] == 0) ready.insert(i);
  }
  std::vector<const onnx::NodeProto*> order;
  while (!ready.empty()) {
    const int next = *ready.begin();
    ready.erase(ready.begin());
    order.push_back(&graph.node(next));
    for (const int reader : readers[static_cast<size_t>(next)]) {
      if (--missing[static_cast<size_t>(reader)] == 0) ready.insert(reader);
    }
  }
  for (int i = 0; i < graph.node_size(); ++i) {
    if (missing[static_cast<size_t>(i)] > 0) order.push_back(&graph.node(i));
  }
  return order;
}

const TriedTypes& OnnxImporter::types_of(const ImportedValue& value) const {
  return value.constant ? value.types : types(*value.source);
}

ImportScope OnnxImporter::scope_of_body(const onnx::NodeProto& node, const onnx::GraphProto& body,
                                        ImportScope& scope) {
  ImportScope inner{.outer = &scope};
  inner.prefix = scope.prefix + identifier(node.name().empty() ? node.op_type() : node.name()) + "_";
  add_initializers(body, inner);
  return inner;
}

void OnnxImporter::convert_body(const std::vector<const onnx::NodeProto*>& steps, ImportScope& inner) {
  written_out_ += steps.size() + 1;
  if (written_out_ > most_nodes_)
    fail("functions and loops stand for more than {} nodes in all", most_nodes_);
  for (const onnx::NodeProto* step : steps) convert(*step, inner);
}

ImportedValue& OnnxImporter::chosen(const onnx::NodeProto& node, const NodeInput& condition,
                                    ImportedValue& value, ImportedValue& otherwise) {
  const bool are_same = value.constant && otherwise.constant && value.constant->equals(*otherwise.constant);
  if (&value == &otherwise || are_same) return value;
  if (value.sequence || otherwise.sequence)
    fail("the condition is not known before the network runs, and chooses between sequences");
  const TriedTypes& a = types_of(value);
  const TriedTypes& b = types_of(otherwise);
  const bool are_alike = a.first.shape.size() == b.first.shape.size() && a.first.dtype == b.first.dtype;
  const std::vector<size_t> dims = are_alike ? differing_dims(a, b) : std::vector<size_t>();
  if (!are_alike || dims.size() > 1) {
    note_sizes(a.first.shape, noted_sizes_);
    note_sizes(b.first.shape, noted_sizes_);
    fail("the condition is not known before the network runs, and chooses between the shapes {} and {}",
         shape_text(a.first.shape), shape_text(b.first.shape));
  }
  NodeImport import(*this, node, opset(node.domain()));
  const NodeInput one = operand(value, node.op_type());
  const NodeInput other = operand(otherwise, node.op_type());
  if (!dims.empty()) return own_result(chosen_part(import, condition, one, other, dims.front()), value);
  return own_result(import.add("where", {condition, one, other}), value);
}

void OnnxImporter::convert_subgraphs(const onnx::NodeProto& node, ImportScope& scope) {
  const std::string& op = node.op_type();
  if (op == "If") return choose_branch(node, scope);
  op == "SequenceMap" ? map_sequence(node, scope) : convert_loop(node, scope);
}

std::vector<ImportedValue*> OnnxImporter::branch_results(const onnx::NodeProto& node,
                                                         const onnx::GraphProto& branch, ImportScope& scope) {
  ImportScope inner = scope_of_body(node, branch, scope);
  convert_body(in_execution_order(branch), inner);
  if (branch.output_size() < node.output_size())
    fail("a branch gives {} of {} outputs", branch.output_size(), node.output_size());
  std::vector<ImportedValue*> results;
  for (int k = 0; k < node.output_size(); ++k) results.push_back(&find(branch.output(k).name(), inner));
  return results;
}

std::vector<ImportedValue*> OnnxImporter::fitting_results(const onnx::NodeProto& node,
                                                          const onnx::GraphProto& branch, ImportScope& scope,
                                                          std::exception_ptr& refusal) {
  if (!trial_.drops_branches) return branch_results(node, branch, scope);
  try {
    return branch_results(node, branch, scope);
  } catch (const Error&) {
    refusal = std::current_exception();
    // The node whose results could not be inferred.
    const std::string last = graph_.nodes().back().name;
    if (!types_.contains(value_name(last, 0))) graph_.erase(last);
    return {};
  }
}

ImportedValue& OnnxImporter::asserted(const onnx::NodeProto& node, NodeInput condition, bool expected,
                                      ImportedValue& value, const std::string& message) {
  if (value.sequence) fail("a sequence depends on a condition that is not known before the network runs");
  NodeImport import(*this, node, opset(node.domain()));
  if (!expected) condition = import.add("logical_not", {std::move(condition)});
  return own_result(
      import.add("assert", {operand(value, node.op_type()), std::move(condition)}, {{"message", message}}),
      value);
}

void OnnxImporter::choose_results(const onnx::NodeProto& node, ImportScope& scope, const NodeInput& choice,
                                  const std::array<std::vector<ImportedValue*>, 2>& results,
                                  const std::array<std::string, 2>& reasons) {
  for (int k = 0; k < node.output_size(); ++k) {
    const auto at = static_cast<size_t>(k);
    if (node.output(k).empty()) continue;
    const size_t dropped = reasons[0].empty() ? 1 : 0;
    scope.values[node.output(k)] =
        reasons[dropped].empty()
            ? &chosen(node, choice, *results[0][at], *results[1][at])
            : &asserted(node, choice, dropped == 1, *results[1 - dropped][at],
                        fmt::format("the {} branch, which its condition chooses, does not take inputs of "
                                    "these sizes, {}: {}",
                                    dropped == 0 ? "then" : "else", reasons[dropped], kShapeAdvice));
  }
}

void OnnxImporter::choose_branch(const onnx::NodeProto& node, ImportScope& scope) {
  if (node.input_size() != 1) fail("{} inputs, expected one", node.input_size());
  ImportedValue& condition = find(node.input(0), scope);
  NodeImport import(*this, node, opset(node.domain()));
  const std::optional<double> known = import.number(size_t{0});
  chooses_branches_ = chooses_branches_ || !known;
  const OnnxLoops* const kept = trial_.kept_loops;
  if (!known && kept != nullptr && kept->contains(&node)) return keep_branches(node, scope);
  const size_t first = graph_.nodes().size();
  const onnx::GraphProto* const branches[] = {&subgraph(node, "then_branch"), &subgraph(node, "else_branch")};
  std::array<std::vector<ImportedValue*>, 2> results;
  std::array<std::exception_ptr, 2> refusals;
  for (size_t i = 0; i < 2; ++i) {
    if (known && (*known != 0) != (i == 0)) continue;
    results[i] = known ? branch_results(node, *branches[i], scope)
                       : fitting_results(node, *branches[i], scope, refusals[i]);
  }
  if (known) {
    for (int k = 0; k < node.output_size(); ++k) {
      if (!node.output(k).empty())
        scope.values[node.output(k)] = results[*known != 0 ? 0 : 1][static_cast<size_t>(k)];
    }
    return;
  }
  if (refusals[0] && refusals[1]) std::rethrow_exception(refusals[0]);
  const NodeInput choice = scalar_condition(import, operand(condition, node.input(0)));
  try {
    choose_results(node, scope, choice, results, {text_of(refusals[0]), text_of(refusals[1])});
  } catch (const Error&) {
    unwritten_loops_.insert(&node);
    if (kept == nullptr) throw;
    remove_since(first);
    keep_branches(node, scope);
  }
}

ImportedValue& OnnxImporter::own_result(NodeInput result, const ImportedValue& like) {
  ImportedValue value;
  if (const std::optional<RoundedConstant> constant = folded(result)) {
    value.constant = constant->values;
    value.rounding = constant->spec;
  } else {
    value.source = std::move(result);
  }
  value.float_type = like.float_type;
  value.narrow_type = like.narrow_type;
  return own(std::move(value));
}

}  // namespace detent

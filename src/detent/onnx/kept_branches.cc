#include "detent/onnx/kept_loops.h"

#include <fmt/format.h>

#include "detent/core/error.h"
#include "detent/onnx/import_steps.h"
#include "detent/onnx/node_import.h"

// Branches between whose results nodes of the graph cannot choose, as several of their sizes differ, become
// two loops of at most one iteration. The first carries nothing into its result, the second what the first
// gives:
//
//     y = If(c) {a} else {b}:    x = loop(1, c, nothing) {a};  y = loop(1, not c, x) {b}

namespace detent {
namespace {

/// Zeros of the sizes that both have, and of none elsewhere.
Tensor nothing_like(const TriedTypes& a, const TriedTypes& b) {
  Shape shape(a.first.shape.size(), 0);
  for (size_t d = 0; d < shape.size(); ++d) {
    const int64_t size = a.first.shape[d];
    const bool is_known = size != kOpenSize && a.second.shape[d] == size && b.first.shape[d] == size &&
                          b.second.shape[d] == size;
    if (is_known) shape[d] = size;
  }
  return Tensor(a.first.dtype, std::move(shape));
}

/// Dimensions that the model declares of a value.
std::optional<int> declared_rank(const onnx::GraphProto& graph, const std::string& value) {
  for (const auto* infos : {&graph.output(), &graph.value_info()}) {
    for (const onnx::ValueInfoProto& info : *infos) {
      const auto& type = info.type().tensor_type();
      if (info.name() == value && type.has_shape()) return type.shape().dim_size();
    }
  }
  return std::nullopt;
}

}  // namespace

/// Values that a branch gives, and their types.
struct OnnxImporter::BranchResults {
  std::vector<ImportedValue> like = {};
  std::vector<TriedTypes> types = {};
};

OnnxImporter::BranchResults OnnxImporter::results_in_body(const onnx::NodeProto& node,
                                                          const onnx::GraphProto& branch,
                                                          ImportScope& scope) {
  OnnxImporter inner(*this, scope);
  inner.add_initializers(branch, inner.outermost_);
  inner.convert_body(in_execution_order(branch), inner.outermost_);
  BranchResults results;
  for (int k = 0; k < node.output_size(); ++k) {
    const ImportedValue& value = inner.find(branch.output(k).name(), inner.outermost_);
    if (value.sequence)
      fail("the condition is not known before the network runs, and chooses between sequences");
    results.like.push_back({.source = std::nullopt,
                            .constant = std::nullopt,
                            .float_type = value.float_type,
                            .narrow_type = value.narrow_type});
    results.types.push_back(inner.types_of(value));
  }
  return results;
}

std::optional<size_t> OnnxImporter::only_branch(const std::string& output, const TriedTypes& first,
                                                const TriedTypes& second) const {
  if (are_alike(first, second)) return std::nullopt;
  if (first.first.dtype != second.first.dtype)
    fail("its branches give {} and {}", dtype_name(first.first.dtype), dtype_name(second.first.dtype));
  const std::optional<int> declared = declared_rank(file_.model().graph(), output);
  return declared && *declared == std::ssize(second.first.shape) ? size_t{1} : size_t{0};
}

void OnnxImporter::keep_branches(const onnx::NodeProto& node, ImportScope& scope) {
  NodeImport import(*this, node, opset(node.domain()));
  const NodeInput condition = scalar_condition(import, import.input(0));
  const NodeInput conditions[] = {condition, import.add("logical_not", {condition})};
  const onnx::GraphProto* const branches[] = {&subgraph(node, "then_branch"), &subgraph(node, "else_branch")};
  const BranchResults given[] = {results_in_body(node, *branches[0], scope),
                                 results_in_body(node, *branches[1], scope)};
  std::vector<std::optional<size_t>> only;  // the branch whose result it is, where that has a rank of its own
  std::vector<ImportedValue*> values;
  for (size_t k = 0; k < given[0].types.size(); ++k) {
    const auto& [first, second] = std::tie(given[0].types[k], given[1].types[k]);
    only.push_back(only_branch(node.output(static_cast<int>(k)), first, second));
    ImportedValue nothing = given[0].like[k];
    const TriedTypes& one = only[k] == 1 ? second : first;
    nothing.constant = nothing_like(one, only[k] ? one : second);
    values.push_back(&own(std::move(nothing)));
  }
  for (const size_t i : {size_t{0}, size_t{1}}) {
    KeptLoop once{.body = *branches[i],
                  .most = NodeImport::integer_of(1),
                  .condition = conditions[i],
                  .carried = values};
    for (const std::string& output : node.output()) once.names.push_back(output + "_before");
    once.convert = [&](OnnxImporter& inner, const NodeInput&, const auto& before) {
      inner.convert_body(in_execution_order(*branches[i]), inner.outermost_);
      std::vector<ImportedValue*> results = {&inner.own(true_value())};
      for (size_t k = 0; k < before.size(); ++k) {
        const std::string& name = branches[i]->output(static_cast<int>(k)).name();
        results.push_back(only[k].value_or(i) == i ? &inner.find(name, inner.outermost_) : before[k]);
      }
      return results;
    };
    const auto results = kept_results(node, scope, once);
    DETENT_CHECK(results.has_value(), "{}: branches of other types than before", node.name());
    values = *results;
  }
  for (size_t k = 0; k < values.size(); ++k) {
    const std::string& name = node.output(static_cast<int>(k));
    if (name.empty()) continue;
    const auto rank = [&](size_t i) { return given[i].types[k].first.shape.size(); };
    if (only[k])
      values[k] = &asserted(
          node, condition, *only[k] == 0, *values[k],
          fmt::format("the {} branch, which its condition chooses, gives {} dimensions, and the network goes "
                      "on with {} as of the other one",
                      *only[k] == 0 ? "else" : "then", rank(1 - *only[k]), rank(*only[k])));
    scope.values[name] = values[k];
  }
}

}  // namespace detent

#include <algorithm>
#include <optional>
#include <span>

#include "detent/core/convert.h"
#include "detent/core/error.h"
#include "detent/inference/float_nodes.h"
#include "detent/operators/onnx_import.h"

namespace detent {
namespace {

/// Elements of a constant of two dimensions and more at computed indices of its first, or its last of two.
std::optional<NodeInput> looked_up_rows(NodeImport& node, int64_t axis) {
  const Tensor* const table = node.constant(0);
  if (table == nullptr || table->dtype() != DType::kFloat32 || table->rank() < 2 || table->numel() == 0 ||
      node.constant(1) != nullptr)
    return std::nullopt;
  const bool by_column = table->rank() == 2 && (axis == 1 || axis == -1);
  const bool is_matrix = table->rank() == 2;
  if (axis != 0 && !by_column) return std::nullopt;
  if (!is_matrix && node.has_rounding(0)) return std::nullopt;
  NodeInput indices = node.input(1);
  if (node.type(1).dtype != DType::kInt64) indices = node.add("cast", {indices}, {{"dtype", "int64"}});
  const int64_t rows = table->dim(0);
  const Shape row(table->shape().begin() + 1, table->shape().end());
  ParameterRef weight = by_column   ? node.transposed_parameter(0)
                        : is_matrix ? node.parameter(0)
                                    : node.reshaped_parameter(0, {rows, element_count(row)});
  NodeInput result = node.add("embedding", {indices}, {}, {{"weight", std::move(weight)}});
  const auto count = static_cast<int64_t>(node.rank(1));
  if (by_column && count > 0) {
    std::vector<int64_t> dims = {count};
    for (int64_t d = 0; d < count; ++d) dims.push_back(d);
    return node.add("permute", {result}, {{"dims", Value(dims)}});
  }
  if (is_matrix) return result;
  Shape shape(static_cast<size_t>(count), 0);
  shape.insert(shape.end(), row.begin(), row.end());
  return node.add("dynamic_reshape", {result, NodeImport::list_of(shape)}, {{"allow_zero", false}});
}

/// One position of a dimension is a slice; rows of a constant are an embedding.
void convert_gather(NodeImport& node) {
  const int64_t axis = node.integer("axis", 0);
  const std::optional<int64_t> index = node.integer(1);
  const bool is_one = index && node.rank(1) == 0;
  if (is_one && node.size(0, axis) && node.constant(0) == nullptr) {
    node.set_output(0, node.add("select", {node.input(0)}, {{"dim", axis}, {"index", *index}}));
    return;
  }
  if (const auto rows = looked_up_rows(node, axis)) return node.set_output(0, *rows);
  const NodeInput indices = is_one ? NodeInput::of_constant(Value(*index)) : node.list(1);
  node.set_output(0, node.add("gather", {node.input(0), indices}, {{"dim", axis}}));
}

void convert_one_hot(NodeImport& node) {
  const std::optional<int64_t> depth = node.integer(1);
  const NodeInput size = depth ? NodeInput::of_constant(Value(*depth)) : node.input(1);
  node.set_output(
      0, node.add("one_hot", {node.input(0), size, node.input(2)}, {{"dim", node.integer("axis", -1)}}));
}

/// Elements are compared one by one where no axis is given.
void convert_unique(NodeImport& node) {
  const bool has_axis = node.has_attribute("axis");
  const NodeInput x = has_axis || node.rank(0) == 1
                          ? node.input(0)
                          : node.add("dynamic_reshape", {node.input(0), NodeImport::list_of({-1})});
  const NodeInput result = node.add(
      "unique", {x},
      {{"dim", has_axis ? node.integer("axis", 0) : int64_t{0}}, {"sorted", node.integer("sorted", 1) != 0}});
  for (size_t i = 0; i < node.output_count(); ++i) {
    if (node.wants(i)) node.set_output(i, NodeInput::of(result.node, i));
  }
}

/// Places of a constant's elements, if they may be known. Exporters index all of a dimension so, or what a
/// mask has.
std::optional<Tensor> known_places(NodeImport& node) {
  const Tensor* const constant = node.constant(0);
  if (constant == nullptr || node.has_rounding(0)) return std::nullopt;
  const Tensor marks = to_dtype(*constant, DType::kBool);
  const int64_t places = std::ranges::count(marks.values<bool>(), true);
  if (!node.may_know(places * constant->rank() * static_cast<int64_t>(sizeof(int64_t)))) return std::nullopt;
  FloatFlow flow;
  flow.tensor = *constant;
  const Node nonzero{.name = "nonzero", .op = "nonzero", .inputs = {NodeInput::of("constant")}};
  return FloatNodes().results(nonzero, std::span(&flow, 1))[0].tensor;
}

void convert_non_zero(NodeImport& node) {
  if (std::optional<Tensor> places = known_places(node)) return node.set_output(0, std::move(*places));
  node.set_output(0, node.add("nonzero", {node.input(0)}));
}

void convert_trilu(NodeImport& node) {
  std::vector<NodeInput> inputs = {node.input(0)};
  if (node.has_input(1)) inputs.push_back(node.number_or_input(1));
  node.set_output(0, node.add("trilu", std::move(inputs), {{"upper", node.integer("upper", 1) != 0}}));
}

NodeInput limit(NodeImport& node, size_t index) {
  return node.has_input(index) ? node.number_or_input(index) : NodeInput::absent();
}

void convert_non_max_suppression(NodeImport& node) {
  std::vector<NodeInput> inputs = {node.input(0), node.input(1), limit(node, 2), limit(node, 3),
                                   limit(node, 4)};
  while (inputs.back().is_absent()) inputs.pop_back();
  node.set_output(0, node.add("non_max_suppression", std::move(inputs),
                              {{"center_point_box", node.integer("center_point_box", 0) != 0}}));
}

}  // namespace

OnnxConverterList gather_converters() {
  return {{"Gather", convert_gather},    {"Unique", convert_unique},
          {"NonZero", convert_non_zero}, {"OneHot", convert_one_hot},
          {"Trilu", convert_trilu},      {"NonMaxSuppression", convert_non_max_suppression}};
}

}  // namespace detent

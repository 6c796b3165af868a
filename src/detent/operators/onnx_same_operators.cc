#include "detent/operators/onnx_same_operators.h"

#include <algorithm>

#include "detent/graph/operators.h"
#include "detent/operators/elementwise/schema_functions.h"
#include "detent/operators/onnx_export.h"
#include "detent/operators/onnx_import.h"

namespace detent {
namespace {

struct ReadAttribute {
  const NodeImport& node;
  const char* name;

  Value operator()(bool otherwise) const { return Value(node.integer(name, otherwise ? 1 : 0) != 0); }
  Value operator()(int64_t otherwise) const { return Value(node.integer(name, otherwise)); }
  Value operator()(double otherwise) const { return Value(node.number(name, otherwise)); }
  Value operator()(const char* otherwise) const { return Value(node.text(name, otherwise)); }
};

struct WrittenAttribute {
  const Node& node;
  const char* name;

  Value operator()(bool) const { return Value(boolean_attribute(node, name)); }
  Value operator()(int64_t) const { return Value(integer_attribute(node, name)); }
  Value operator()(double) const { return Value(number_attribute(node, name)); }
  Value operator()(const char*) const { return Value(text_attribute(node, name)); }
};

template <const auto& kTable>
void convert_same(NodeImport& node) {
  const SameOperator& same = *std::ranges::find(kTable, std::string_view(node.op()), &SameOperator::onnx);
  Table attributes;
  for (const auto& [onnx, ours, otherwise] : same.attributes)
    if (onnx != nullptr) attributes[ours] = std::visit(ReadAttribute{node, onnx}, otherwise);
  std::vector<NodeInput> inputs;
  for (size_t i = 0; i < find_operator(same.op).max_inputs; ++i) inputs.push_back(node.input(i));
  node.set_output(0, node.add(same.op, std::move(inputs), std::move(attributes)));
}

template <const auto& kTable>
void export_same(NodeExport& node) {
  const SameOperator& same = *std::ranges::find(kTable, std::string_view(node.node().op), &SameOperator::op);
  Table attributes;
  for (const auto& [onnx, ours, kind] : same.attributes)
    if (onnx != nullptr) attributes[onnx] = std::visit(WrittenAttribute{node.node(), ours}, kind);
  node.need_opset(same.since, same.onnx);
  node.emit(same.onnx, node.inputs(), std::move(attributes));
}

void convert_function(NodeImport& node) {
  const auto same = std::ranges::find_if(element_functions(), [&](const FunctionRow& row) {
    return row.onnx != nullptr && row.onnx == node.op();
  });
  node.set_output(0, node.add(same->op, {node.input(0)}));
}

void export_function(NodeExport& node) {
  node.emit(find_element_function(node.node().op)->onnx, node.inputs());
}

template <const auto& kTable>
void add_converters(OnnxConverterList& list) {
  for (const SameOperator& same : kTable) list.emplace_back(same.onnx, convert_same<kTable>);
}

template <const auto& kTable>
void add_exporters(OnnxExporterList& list) {
  for (const SameOperator& same : kTable) list.emplace_back(same.op, export_same<kTable>);
}

}  // namespace

OnnxConverterList same_operator_converters() {
  OnnxConverterList list;
  for (const FunctionRow& row : element_functions())
    if (row.onnx != nullptr) list.emplace_back(row.onnx, convert_function);
  add_converters<kSameOperators>(list);
  add_converters<kSameWhenRead>(list);
  return list;
}

OnnxExporterList same_operator_exporters() {
  OnnxExporterList list;
  for (const FunctionRow& row : element_functions())
    if (row.onnx != nullptr) list.emplace_back(row.op, export_function);
  add_exporters<kSameOperators>(list);
  add_exporters<kSamePairs>(list);
  add_exporters<kSameWhenWritten>(list);
  return list;
}

}  // namespace detent

#include <algorithm>

#include "detent/core/error.h"
#include "detent/onnx/quantizer_export.h"
#include "detent/onnx/tensor_data.h"
#include "detent/operators/onnx_export.h"

namespace detent {
namespace {

/// ONNX Runtime fuses Add between quantized values into QLinearAdd, which multiplies codes by ratios of
/// scales and so rounds some sums next to the middle of two codes the other way. It leaves Sum as it is
/// written: dequantize, add in float32, quantize.
void export_add(NodeExport& node) {
  const auto is_rounded = [&](const char* operand) { return rounding_of(node.node(), operand).has_value(); };
  const bool is_fused = node.style() == OnnxStyle::kQdq && is_rounded("data_in_0") && is_rounded("data_in_1");
  node.emit(is_fused ? "Sum" : "Add", node.inputs());
}

/// Mod rounds the quotient down for integers only.
void export_remainder(NodeExport& node) {
  if (!is_floating_point(node.result_type().dtype)) return node.emit("Mod", node.inputs());
  const OnnxValues values = node.inputs();
  const std::string quotient = node.add("Floor", {node.add("Div", values)});
  node.emit("Sub", {values[0], node.add("Mul", {quotient, values[1]})});
}

/// ONNX Runtime has no Where of truth values.
void export_where(NodeExport& node) {
  const OnnxValues values = node.inputs();
  if (node.result_type().dtype != DType::kBool) return node.emit("Where", values);
  const std::string otherwise = node.add("And", {node.add("Not", {values[0]}), values[2]});
  node.emit("Or", {node.add("And", {values[0], values[1]}), otherwise});
}

void export_fmod(NodeExport& node) { node.emit("Mod", node.inputs(), {{"fmod", 1}}); }

/// Clip takes numbers as bounds; tensors are compared one by one.
void export_clamp(NodeExport& node) {
  const auto is_number = [&](size_t index) {
    return !node.has_input(index) || node.node().inputs[index].is_constant() || node.rank(index) == 0;
  };
  const OnnxValues values = node.inputs();
  if (is_number(1) && is_number(2)) return node.emit("Clip", values);
  if (values[1].empty()) return node.emit("Min", {values[0], values[2]});
  if (values[2].empty()) return node.emit("Max", {values[0], values[1]});
  node.emit("Min", {node.add("Max", {values[0], values[1]}), values[2]});
}

void export_cast(NodeExport& node) {
  node.emit("Cast", {node.input(0)}, {{"to", onnx_element_type(node.result_type().dtype)}});
}

/// ONNX has no operator that ends a run.
void export_assert(NodeExport& node) { node.emit("Identity", {node.input(0)}); }

}  // namespace

OnnxExporterList elementwise_exporters() {
  return {{"add", export_add},      {"remainder", export_remainder}, {"fmod", export_fmod},
          {"clamp", export_clamp},  {"cast", export_cast},           {"where", export_where},
          {"assert", export_assert}};
}

}  // namespace detent

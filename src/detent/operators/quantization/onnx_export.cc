#include "detent/operators/onnx_export.h"

#include <numeric>

#include "detent/core/error.h"
#include "detent/onnx/tensor_data.h"

namespace detent {
namespace {

constexpr int64_t kWideCodesSince = 21;

/// The dtype of codes that QuantizeLinear and DequantizeLinear have.
void expect_code_dtype(const NodeExport& node, DType dtype) {
  if (dtype == DType::kInt16) node.need_opset(kWideCodesSince, "codes of 16 bits");
}

/// A zero point says of which dtype the codes are; without one they are uint8.
void export_quantize(NodeExport& node) {
  const DType dtype = node.result_type().dtype;
  if (dtype == DType::kInt32) node.refuse("codes of 32 bits");
  expect_code_dtype(node, dtype);
  OnnxValues inputs = {node.input(0), node.input_as(1, DType::kFloat32), node.input_as(2, dtype)};
  if (inputs[2].empty() && dtype != DType::kUInt8) {
    const bool is_one = node.node().inputs[1].is_constant() || node.rank(1) == 0;
    const Tensor zeros(dtype, is_one ? Shape{} : node.type(1).shape);
    inputs[2] = node.constant(zeros, "zero_points");
  }
  node.emit("QuantizeLinear", std::move(inputs), {{"axis", node.integer("axis")}});
}

void export_dequantize(NodeExport& node) {
  const DType dtype = node.type(0).dtype;
  expect_code_dtype(node, dtype);
  node.emit("DequantizeLinear", {node.input(0), node.input_as(1, DType::kFloat32), node.input_as(2, dtype)},
            {{"axis", node.integer("axis")}});
}

/// Codes and their zero points; of 8 bits.
OnnxValues code_factors(NodeExport& node) {
  OnnxValues inputs = {node.input(0), node.input(1)};
  for (const size_t i : {size_t{0}, size_t{1}}) {
    const DType dtype = node.type(i).dtype;
    if (dtype == DType::kInt16) node.refuse("sums of products of 16-bit codes");
    inputs.push_back(node.input_as(i + 2, dtype));
  }
  return inputs;
}

void export_integer_matmul(NodeExport& node) { node.emit("MatMulInteger", code_factors(node)); }

/// The bias is added afterwards, along the channels.
void export_integer_convolution(NodeExport& node) {
  constexpr size_t kBias = 4;
  OnnxValues inputs = code_factors(node);
  Table attributes = convolution_attributes(node, node.type(1).shape);
  if (!node.has_input(kBias)) return node.emit("ConvInteger", std::move(inputs), std::move(attributes));
  const std::string sums = node.add("ConvInteger", std::move(inputs), std::move(attributes));
  std::vector<int64_t> dims(node.rank(0) - 2);
  std::iota(dims.begin(), dims.end(), 1);
  node.emit("Add", {sums, node.add("Unsqueeze", {node.input(kBias), node.list_of(dims)})});
}

}  // namespace

OnnxExporterList quantized_exporters() {
  return {{"quantize_linear", export_quantize},
          {"dequantize_linear", export_dequantize},
          {"integer_matmul", export_integer_matmul},
          {"integer_convolution", export_integer_convolution}};
}

namespace {

/// Gathers of gathered sums of codes would compute them, which no runtime does faster than the layer that the
/// tables are made of.
void refuse_tables(NodeExport& node) {
  node.refuse("truth tables, which ONNX has no operator for; export the network that they are made of");
}

void refuse_trained_tables(NodeExport& node) {
  node.refuse(
      "trained tables, which ONNX has no operator for; export the network of signs that they began as");
}

}  // namespace

OnnxExporterList table_exporters() {
  return {{"lut", refuse_tables},
          {"lut_conv1d", refuse_tables},
          {"lut_conv2d", refuse_tables},
          {"lutnet_linear", refuse_trained_tables},
          {"lutnet_conv1d", refuse_trained_tables},
          {"lutnet_conv2d", refuse_trained_tables}};
}

}  // namespace detent

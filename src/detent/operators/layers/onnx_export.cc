#include <algorithm>

#include "detent/core/error.h"
#include "detent/onnx/quantizer_export.h"
#include "detent/operators/onnx_export.h"

namespace detent {
namespace {

constexpr int64_t kRest = -1;  // of a Reshape: what the other sizes leave

/// The shape of input 0 but for its last size, which is `columns`.
std::string shape_of_rows(NodeExport& node, const std::string& value, int64_t columns) {
  std::vector<int64_t> sizes;
  for (size_t d = 0; d + 1 < node.rank(0); ++d) sizes.push_back(node.size(0, d).value_or(kRest));
  sizes.push_back(columns);
  if (std::ranges::count(sizes, kRest) <= 1) return node.list_of(sizes);
  const std::string leading =
      node.add("Slice", {node.add("Shape", {value}), node.list_of({0}), node.list_of({-1})});
  return node.add("Concat", {leading, node.list_of({columns})}, {{"axis", 0}});
}

/// ONNX Runtime multiplies codes with a bias in integers where they are matrices (QGemm); the bias of a
/// MatMul it adds in float, and so rounds some sums next to the middle of two codes the other way.
bool wrote_matrix_of_rows(NodeExport& node) {
  const auto given = rounding_of(node.node(), "data_in_0");
  const auto result = rounding_of(node.node(), "data_out_0");
  const auto has_one_scale = [](const std::optional<QuantSpec>& spec) {
    return spec && spec->granularity == Granularity::kTensor;
  };
  const bool is_on_codes = has_integers(node.style()) && has_one_scale(given) && has_one_scale(result) &&
                           rounding_of(node.node(), "weight");
  if (!is_on_codes || node.find_parameter("bias") == nullptr) return false;
  const Shape& weight = node.find_parameter("weight")->shape();
  const std::string value = node.input(0);
  const std::string rows = node.add("Reshape", {value, node.list_of({kRest, weight[1]})});
  const std::string product =
      node.add("Gemm", {node.rounded(rows, *given), node.parameter("weight"), node.parameter("bias")},
               {{"transB", 1}});
  node.emit("Reshape", {node.rounded(product, *result), shape_of_rows(node, value, weight[0])});
  return true;
}

/// A matrix times a matrix is Gemm, which takes the weight as it is.
void export_linear(NodeExport& node) {
  if (wrote_matmul_of_blocks(node)) return;
  if (node.rank(0) == 2) {
    return node.emit("Gemm", {node.input(0), node.parameter("weight"), node.parameter("bias")},
                     {{"transB", 1}});
  }
  if (wrote_matrix_of_rows(node)) return;
  const OnnxValues factors = {node.input(0), node.transposed_parameter("weight")};
  if (node.find_parameter("bias") == nullptr) return node.emit("MatMul", factors);
  const std::string product = node.add("MatMul", factors);
  node.emit("Add", {product, node.parameter("bias")});
}

void add_extra(const NodeExport& node, Table& attributes, size_t dims) {
  attributes["output_padding"] = Value(node.integers("output_padding", dims));
}

void export_convolution(NodeExport& node) {
  node.emit("Conv", {node.input(0), node.parameter("weight"), node.parameter("bias")},
            convolution_attributes(node, node.find_parameter("weight")->shape()));
}

void export_transposed(NodeExport& node) {
  const Shape& weight = node.find_parameter("weight")->shape();
  Table attributes = convolution_attributes(node, weight);
  add_extra(node, attributes, weight.size() - 2);
  node.emit("ConvTranspose", {node.input(0), node.parameter("weight"), node.parameter("bias")},
            std::move(attributes));
}

void export_convolution_of_inputs(NodeExport& node) {
  const Shape weight = node.type(1).shape;
  for (size_t d = 2; d < weight.size(); ++d) {
    if (!node.size(1, d)) node.refuse(fmt::format("a weight of open size in dimension {}", d));
  }
  Table attributes = convolution_attributes(node, weight);
  const bool transposed = node.flag("transposed");
  if (transposed) add_extra(node, attributes, weight.size() - 2);
  node.emit(transposed ? "ConvTranspose" : "Conv", node.inputs(), std::move(attributes));
}

/// Indices may be whole numbers in float32. Integers are looked up with their scales, as a DequantizeLinear
/// of the weight would be computed anew at every run.
void export_embedding(NodeExport& node) {
  constexpr int64_t kInt64 = 7;  // TensorProto.DataType
  constexpr int64_t kFloat = 1;
  std::string indices = node.input(0);
  if (node.type(0).dtype != DType::kInt64) indices = node.add("Cast", {indices}, {{"to", kInt64}});
  if (wrote_gather_of_blocks(node, indices)) return;
  if (const auto rows = node.integer_rows("weight")) {
    const std::string codes = node.add("Gather", {rows->codes, indices}, {{"axis", 0}});
    const std::string scales = node.add("Gather", {rows->scales, indices}, {{"axis", 0}});
    return node.emit("Mul", {node.add("Cast", {codes}, {{"to", kFloat}}), scales});
  }
  node.emit("Gather", {node.parameter("weight"), indices}, {{"axis", 0}});
}

}  // namespace

Table convolution_attributes(const NodeExport& node, const Shape& weight) {
  const std::vector<int64_t> kernel(weight.begin() + 2, weight.end());
  const size_t dims = kernel.size();
  std::vector<int64_t> pads = node.integers("padding", dims);
  pads.insert(pads.end(), pads.begin(), pads.begin() + static_cast<int64_t>(dims));
  return {{"kernel_shape", Value(kernel)},
          {"strides", Value(node.integers("stride", dims))},
          {"pads", Value(pads)},
          {"dilations", Value(node.integers("dilation", dims))},
          {"group", node.integer("groups")}};
}

OnnxExporterList layer_exporters() {
  return {{"linear", export_linear},
          {"conv1d", export_convolution},
          {"conv2d", export_convolution},
          {"conv3d", export_convolution},
          {"convtranspose1d", export_transposed},
          {"convtranspose2d", export_transposed},
          {"convtranspose3d", export_transposed},
          {"convolution", export_convolution_of_inputs},
          {"embedding", export_embedding}};
}

}  // namespace detent

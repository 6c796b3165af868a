#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "detent/onnx/node_export.h"

namespace detent {

/// Writes a node of a graph into an ONNX model.
using OnnxNodeExporter = void (*)(NodeExport&);

/// nullptr when the operator cannot be written.
OnnxNodeExporter find_onnx_exporter(std::string_view op);

// One list a file; find_onnx_exporter() joins them.
using OnnxExporterList = std::vector<std::pair<std::string_view, OnnxNodeExporter>>;
OnnxExporterList layer_exporters();
OnnxExporterList normalization_exporters();
OnnxExporterList pooling_exporters();
OnnxExporterList elementwise_exporters();
OnnxExporterList same_operator_exporters();  // same_operators.h
OnnxExporterList activation_exporters();
OnnxExporterList reduction_exporters();
OnnxExporterList shape_exporters();
OnnxExporterList indexing_exporters();
OnnxExporterList quantized_exporters();
OnnxExporterList recurrent_exporters();
OnnxExporterList resize_exporters();
OnnxExporterList table_exporters();
OnnxExporterList control_flow_exporters();

// In the style matmulnbits: false, and nothing is written, where the weight has no codes that these have.
/// A linear layer as MatMulNBits.
bool wrote_matmul_of_blocks(NodeExport& node);
/// An embedding as GatherBlockQuantized.
bool wrote_gather_of_blocks(NodeExport& node, const std::string& indices);

/// Attributes of a node whose window is that of `weight`.
Table convolution_attributes(const NodeExport& node, const Shape& weight);

}  // namespace detent

#include "detent/onnx/exporters/exporters.h"

namespace detent {
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

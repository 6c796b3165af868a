#pragma once

#include <optional>

#include "detent/onnx/node_import.h"

namespace detent {

// Layers of codes as layers of the floats that these stand for, with quantizers: of the input, of the weight,
// and where what comes out is codes again, of the result. In integers (graph/requantization) they give the
// codes that the operators of codes do. Nothing where a scale, a zero point, the weight or the bias is
// computed, or where the format has no such layer.

/// The sums of a QLinearConv.
std::optional<NodeInput> rounded_convolution(NodeImport& node);

/// Where a product of matrices has what it needs beside two factors, their scales and their zero points.
struct RoundedLinear {
  bool transposed = false;  // the weight: a row for each output
  std::optional<size_t> bias = std::nullopt;
  size_t result_scale = 6;  // may be missing: the result is float
};
std::optional<NodeInput> rounded_linear(NodeImport& node, const RoundedLinear& inputs);

/// Recognizes a Mul that rescales integer sums, where the codes and the scale of the input come from one
/// DynamicQuantizeLinear: the layer, whose input has a quantizer that derives its scale at every run.
std::optional<NodeInput> dynamic_layer(NodeImport& node);

}  // namespace detent

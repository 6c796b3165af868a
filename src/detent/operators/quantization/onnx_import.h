#pragma once

#include <optional>
#include <vector>

#include "detent/onnx/node_import.h"
#include "detent/onnx/tensor_data.h"
#include "detent/operators/quantization/onnx_rounding.h"

namespace detent {

/// Codes, codes, and their zero points, which may be missing: the inputs of integer_matmul.
std::vector<NodeInput> code_factors(NodeImport& node, const QuantizedInput& a, const QuantizedInput& b);
/// The product of two scales, in float32 where it is known.
NodeInput scale_product(NodeImport& node, const NodeInput& a, const NodeInput& b);
/// A scale or zero point: a number where it is constant and one for all, absent where it is not given.
NodeInput quantization_operand(NodeImport& node, size_t index);
/// The value that codes stand for, rounded to what they are where scale and zero point are known. A constant
/// of one element may have a dimension, which kernels of pairs want.
NodeInput dequantized(NodeImport& node, const QuantizedInput& codes, bool has_dimension = false);
/// Codes of the dtype that the zero point, input scale + 1, has; uint8 without one. Where both are known, the
/// value is rounded before: what reads the codes then reads it with a quantizer.
NodeInput quantized(NodeImport& node, NodeInput value, size_t scale);
/// int32 sums, whose unit is the product of two scales, as floats.
NodeInput in_units(NodeImport& node, const NodeInput& sums, const NodeInput& unit);
/// Input of quantized() for such sums.
NodeInput requantized(NodeImport& node, const NodeInput& sums, const NodeInput& unit, size_t scale);

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
/// The product of a QLinearMatMul of two computed matrices of 8-bit codes.
std::optional<NodeInput> rounded_product(NodeImport& node);

/// Recognizes a Mul that rescales integer sums, where the codes and the scale of the input come from one
/// DynamicQuantizeLinear: the layer, whose input has a quantizer that derives its scale at every run.
std::optional<NodeInput> dynamic_layer(NodeImport& node);

/// Whether a DequantizeLinear of constant codes with a scale for each block became a constant: one that is
/// rounded as nvfp4 where floats of 4 bits have floats of 8 bits times a number for scales, as mx where
/// scales are powers of two, else, of floats, as floats with a scale a group. Of integers only mx is tried.
bool became_blocks(NodeImport& node);

// QuantizeLinear and DequantizeLinear whose codes are floats of few bits: value = float(x / scale) * scale,
// all in float32, zero points 0.

/// The scales of the node, or its zero points, as what broadcasts with its first input: those of blocks once
/// for each position.
NodeInput scales_along(NodeImport& node, size_t input);

/// Whether a DequantizeLinear became a quantizer: of a constant, or of what a QuantizeLinear with the same
/// scales has rounded.
bool became_float_rounding(NodeImport& node, const NarrowType& type);

}  // namespace detent

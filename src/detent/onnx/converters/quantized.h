#pragma once

#include <vector>

#include "detent/onnx/converters/rounding.h"
#include "detent/onnx/node_import.h"

namespace detent {

/// Codes, codes, and their zero points, which may be missing: the inputs of integer_matmul.
std::vector<NodeInput> code_factors(NodeImport& node, const QuantizedInput& a, const QuantizedInput& b);
/// The product of two scales, in float32 where it is known.
NodeInput scale_product(NodeImport& node, const NodeInput& a, const NodeInput& b);
/// A scale or zero point: a number where it is constant and one for all, absent where it is not given.
NodeInput quantization_operand(NodeImport& node, size_t index);
/// The value that codes stand for, rounded to what they are where scale and zero point are known.
NodeInput dequantized(NodeImport& node, const QuantizedInput& codes);
/// Codes of the dtype that the zero point, input scale + 1, has; uint8 without one. Where both are known, the
/// value is rounded before: what reads the codes then reads it with a quantizer.
NodeInput quantized(NodeImport& node, NodeInput value, size_t scale);
/// int32 sums, whose unit is the product of two scales, as floats.
NodeInput in_units(NodeImport& node, const NodeInput& sums, const NodeInput& unit);
/// What quantized() takes of such sums.
NodeInput requantized(NodeImport& node, const NodeInput& sums, const NodeInput& unit, size_t scale);

}  // namespace detent

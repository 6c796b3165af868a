#pragma once

#include <vector>

#include "detent/onnx/node_import.h"

namespace detent {

/// Where a node has the scale and zero point of a value among its inputs.
struct QuantizedInput {
  size_t value;
  size_t scale;
  size_t zero_point;
};

/// Codes, codes, and their zero points, which may be missing: the inputs of integer_matmul.
std::vector<NodeInput> code_factors(NodeImport& node, const QuantizedInput& a, const QuantizedInput& b);
/// The product of two scales, in float32 where it is known.
NodeInput scale_product(NodeImport& node, const NodeInput& a, const NodeInput& b);
/// A scale or zero point: a number where it is constant and one for all, absent where it is not given.
NodeInput quantization_operand(NodeImport& node, size_t index);
/// The value that codes stand for.
NodeInput dequantized(NodeImport& node, const QuantizedInput& codes);
/// Codes of the dtype that the zero point, input scale + 1, has; uint8 without one.
NodeInput quantized(NodeImport& node, NodeInput value, size_t scale);
/// int32 sums, whose unit is the product of two scales, as floats.
NodeInput in_units(NodeImport& node, const NodeInput& sums, const NodeInput& unit);
/// What quantized() takes of such sums.
NodeInput requantized(NodeImport& node, const NodeInput& sums, const NodeInput& unit, size_t scale);

}  // namespace detent

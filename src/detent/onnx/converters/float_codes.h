#pragma once

#include "detent/onnx/narrow_elements.h"
#include "detent/onnx/node_import.h"

namespace detent {

// QuantizeLinear and DequantizeLinear whose codes are floats of few bits: value = float(x / scale) * scale,
// all in float32, zero points 0.

/// The scales of the node, or its zero points, as what broadcasts with its first input: those of blocks once
/// for each position.
NodeInput scales_along(NodeImport& node, size_t input);

/// Whether a DequantizeLinear became a quantizer: of a constant, or of what a QuantizeLinear with the same
/// scales has rounded.
bool became_float_rounding(NodeImport& node, const NarrowType& type);

}  // namespace detent

#pragma once

#include "detent/onnx/node_import.h"

namespace detent {

/// Whether a DequantizeLinear of constant codes with a scale for each block became a constant: one that is
/// rounded as nvfp4 where floats of 4 bits have floats of 8 bits times a number for scales, as mx where
/// scales are powers of two, else, of floats, as floats with a scale a group. Of integers only mx is tried.
bool became_blocks(NodeImport& node);

}  // namespace detent

#pragma once

#include "detent/onnx/node_import.h"

namespace detent {

/// Of a DequantizeLinear: where its codes are constants, or come from a QuantizeLinear with the same
/// parameters (and perhaps a Clip, for fewer bits), its result is what was quantized, with a quantizer. False
/// where it is more than that.
bool became_rounding(NodeImport& node);

}  // namespace detent

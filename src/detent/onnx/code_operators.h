#pragma once

#include "detent/onnx/model_writer.h"

namespace detent {

/// Rewrites a model in the style qdq into operators that take and give integers: where a node stands between
/// DequantizeLinear and QuantizeLinear, QLinearConv, QLinearMatMul, and of com.microsoft QGemm, QLinearAdd
/// and their like take its place; what moves or clamps elements does so on integers. What has no such
/// operator, or none that ONNX Runtime computes for these types, stays between its DequantizeLinear and
/// QuantizeLinear.
void compute_on_codes(OnnxModelWriter& writer);

}  // namespace detent

#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "detent/onnx/node_import.h"

namespace detent {

/// Writes an ONNX node into the graph. The input and output counts, and what is absent, are as the file has
/// them.
using OnnxConverter = void (*)(NodeImport&);

/// nullptr when the operator of that domain ("" is ai.onnx) is not supported.
OnnxConverter find_onnx_converter(std::string_view domain, std::string_view op);
/// Names of all supported operators of the domain, sorted.
std::vector<std::string_view> onnx_operators(std::string_view domain = "");

// One list a file; find_onnx_converter() joins them.
using OnnxConverterList = std::vector<std::pair<std::string_view, OnnxConverter>>;
OnnxConverterList layer_converters();
OnnxConverterList normalization_converters();
OnnxConverterList pooling_converters();
OnnxConverterList elementwise_converters();
OnnxConverterList cast_converters();
OnnxConverterList integer_converters();
OnnxConverterList reduction_converters();
OnnxConverterList shape_converters();
OnnxConverterList gather_converters();
OnnxConverterList resize_converters();
OnnxConverterList recurrent_converters();
OnnxConverterList attention_converters();
OnnxConverterList loss_converters();
OnnxConverterList generator_converters();
OnnxConverterList rearrangement_converters();
OnnxConverterList sequence_converters();
OnnxConverterList linear_code_converters();  // of several domains
OnnxConverterList quantized_converters();
OnnxConverterList microsoft_converters();
OnnxConverterList rounding_converters();  // of qonnx.custom_op.general

}  // namespace detent

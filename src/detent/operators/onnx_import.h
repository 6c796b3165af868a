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
/// Whether it is one of the names that the domain of QONNX has in files.
bool is_qonnx(std::string_view domain);
/// Whether it is that of operators of QONNX which are those of ONNX, but with the channels last.
bool is_channels_last(std::string_view domain);

/// Whether the axes are constants: all but the batch and the channels of images or volumes.
bool are_places(const NodeInput& axes, size_t rank);

/// A Dropout that drops elements.
void convert_training_dropout(NodeImport& node);

/// Labels that a classifier of ai.onnx.ml gives: integers, or strings as numbers.
struct ClassLabels {
  Tensor numbers;
  const NarrowType* type = nullptr;
};
ClassLabels class_labels(const NodeImport& node);
/// Output 0 from the places of classes among the labels.
void set_labels(NodeImport& node, const NodeInput& places);
/// Probabilities of classes, [N, classes], from the scores of a support vector machine for each pair of them.
NodeInput coupled_probabilities(NodeImport& node, const NodeInput& scores, int64_t classes);
/// Scores as the attribute `post_transform` says.
NodeInput post_transformed(NodeImport& node, const NodeInput& scores);
NodeInput post_transformed(NodeImport& node, const NodeInput& scores, const std::string& transform);

// One list a file; find_onnx_converter() joins them.
using OnnxConverterList = std::vector<std::pair<std::string_view, OnnxConverter>>;
OnnxConverterList layer_converters();
OnnxConverterList einsum_converters();
OnnxConverterList fused_layer_converters();  // of com.microsoft
OnnxConverterList normalization_converters();
OnnxConverterList layer_norm_converters();  // of several domains
OnnxConverterList pooling_converters();
OnnxConverterList channels_last_pooling_converters();  // of com.microsoft and QONNX
OnnxConverterList elementwise_converters();
OnnxConverterList same_operator_converters();  // same_operators.h
OnnxConverterList cast_converters();
OnnxConverterList integer_converters();
OnnxConverterList reduction_converters();
OnnxConverterList shape_converters();
OnnxConverterList gather_converters();
OnnxConverterList resize_converters();
OnnxConverterList recurrent_converters();
OnnxConverterList quantized_recurrent_converters();  // of com.microsoft
OnnxConverterList attention_converters();
OnnxConverterList loss_converters();
OnnxConverterList format_converters();  // of detent.torch
OnnxConverterList spectrum_converters();
OnnxConverterList sampling_converters();
OnnxConverterList region_converters();
OnnxConverterList crop_converters();  // of com.microsoft
OnnxConverterList early_converters();
OnnxConverterList feature_converters();         // of ai.onnx.ml
OnnxConverterList tree_converters();            // likewise
OnnxConverterList support_vector_converters();  // likewise
OnnxConverterList generator_converters();
OnnxConverterList noise_converters();
OnnxConverterList rearrangement_converters();
OnnxConverterList sequence_converters();
OnnxConverterList state_space_converters();
OnnxConverterList microsoft_state_space_converters();
OnnxConverterList linear_code_converters();  // of several domains
OnnxConverterList quantized_converters();
OnnxConverterList microsoft_converters();
OnnxConverterList microsoft_attention_converters();
OnnxConverterList grouped_attention_converters();
OnnxConverterList microsoft_normalization_converters();
OnnxConverterList microsoft_window_converters();
OnnxConverterList microsoft_matrix_converters();
OnnxConverterList block_weight_converters();
OnnxConverterList rounding_converters();  // of QONNX
OnnxConverterList qonnx_converters();

}  // namespace detent

#include "detent/core/error.h"
#include "detent/operators/layers/onnx_import.h"
#include "detent/operators/onnx_import.h"
#include "detent/operators/quantization/onnx_rounding.h"

namespace detent {
namespace {

// Normalizations with what stands before them, as ONNX Runtime's optimizer joins them:
// https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md

/// Where a node has a scale and a bias of the last dimension, if it has one, and how it normalizes.
struct LastNorm {
  size_t scale;
  std::optional<size_t> bias;
  bool by_root_mean_square = false;
  double epsilon = 0;
};

bool is_constant_vector(const NodeImport& node, size_t input) {
  const Tensor* const constant = node.constant(input);
  return constant != nullptr && constant->dtype() == DType::kFloat32 && constant->rank() == 1;
}

/// QEmbedLayerNormalization has codes, whose scales and zero points are further inputs.
std::optional<RoundedConstant> decoded_table(const NodeImport& node, size_t table) {
  constexpr size_t kToScale = 6;
  constexpr size_t kToZeroPoint = 11;
  if (node.op() != "QEmbedLayerNormalization") return std::nullopt;
  auto decoded = rounded_constant(node, {table, table + kToScale, table + kToZeroPoint}, 0);
  if (!decoded) node.refuse("computed embeddings, scales or zero points");
  return decoded;
}

/// A layer where scale and bias are constant.
NodeInput last_normalized(NodeImport& node, const NodeInput& x, const LastNorm& norm) {
  const bool has_bias = norm.bias && node.has_input(*norm.bias);
  const Shape& shape = node.type_of(x).shape;
  const bool are_constant =
      is_constant_vector(node, norm.scale) && (!has_bias || is_constant_vector(node, *norm.bias));
  if (are_constant) {
    const Shape scale = node.constant(norm.scale)->shape();
    if (shape.empty() || shape.back() != scale[0] ||
        (has_bias && node.constant(*norm.bias)->shape() != scale))
      fail("{} scales for a last dimension of {}", scale[0], shape.empty() ? 1 : shape.back());
    NodeImport::Parameters parameters = {{"weight", node.parameter(norm.scale)}};
    if (has_bias) parameters.emplace_back("bias", node.parameter(*norm.bias));
    return node.add(norm.by_root_mean_square ? "rms_norm" : "layer_norm", {x},
                    {{"normalized_shape", Value(scale)}, {"eps", norm.epsilon}}, std::move(parameters));
  }
  NodeInput result = norm.by_root_mean_square ? over_root_mean_square(node, x, {-1}, norm.epsilon)
                                              : standardized_over(node, x, {-1}, norm.epsilon).value;
  result = node.add("mul", {result, node.input(norm.scale)});
  return has_bias ? node.add("add", {result, node.input(*norm.bias)}) : result;
}

/// Normalizes the sum of two values, and of a bias if there is one; output 3 is the sum.
void convert_skip_norm(NodeImport& node, size_t bias, const LastNorm& norm) {
  const bool has_bias = node.has_input(bias);
  const auto first = has_bias ? layer_with_bias(node, 0, bias) : std::nullopt;
  const auto second = has_bias && !first ? layer_with_bias(node, 1, bias) : std::nullopt;
  NodeInput sum = node.add("add", {first ? *first : node.input(0), second ? *second : node.input(1)});
  if (has_bias && !first && !second) sum = node.add("add", {sum, node.input(bias)});
  node.set_output(0, last_normalized(node, sum, norm));
  if (node.wants(3)) node.set_output(3, sum);
}

double epsilon_of(const NodeImport& node) { return node.number("epsilon", 1e-12F); }

void convert_skip_layer_norm(NodeImport& node) {
  convert_skip_norm(node, 4, {.scale = 2, .bias = 3, .epsilon = epsilon_of(node)});
}

void convert_skip_rms_norm(NodeImport& node) {
  convert_skip_norm(
      node, 3, {.scale = 2, .bias = std::nullopt, .by_root_mean_square = true, .epsilon = epsilon_of(node)});
}

/// Rows of a constant matrix are an embedding.
NodeInput rows_of_table(NodeImport& node, size_t table, NodeInput indices) {
  if (node.rank(table) != 2) fail("a table of {} dimensions, expected 2", node.rank(table));
  if (node.type_of(indices).dtype != DType::kInt64)
    indices = node.add("cast", {std::move(indices)}, {{"dtype", "int64"}});
  if (const auto decoded = decoded_table(node, table)) {
    const ParameterRef weight = decoded->spec ? node.parameter(decoded->values, *decoded->spec)
                                              : NodeImport::parameter(decoded->values);
    return node.add("embedding", {std::move(indices)}, {}, {{"weight", weight}});
  }
  const Tensor* const rows = node.constant(table);
  if (rows == nullptr || rows->dtype() != DType::kFloat32)
    return node.add("gather", {node.input(table), std::move(indices)}, {{"dim", 0}});
  return node.add("embedding", {std::move(indices)}, {}, {{"weight", node.parameter(table)}});
}

enum EmbeddingInput : size_t {
  kTokens,
  kSegments,
  kTokenTable,
  kPlaceTable,
  kSegmentTable,
  kNormScale,
  kNormBias,
  kTokenMask,
  kTokenPlaces
};

/// How many tokens of each sample the mask has.
NodeInput masked_lengths(NodeImport& node) {
  const NodeInput source = node.input(node.has_input(kTokenMask) ? kTokenMask : kTokens);
  NodeInput counts =
      node.add("cast", {node.add("eq", {source, NodeImport::integer_of(1)})}, {{"dtype", "int32"}});
  if (!node.has_input(kTokenMask)) counts = node.add("sub", {counts, counts});
  const NodeInput sum = node.add("sum", {counts, NodeImport::list_of({1})});
  return node.type_of(sum).dtype == DType::kInt32 ? sum : node.add("cast", {sum}, {{"dtype", "int32"}});
}

/// The sum of embeddings of tokens, of places, and of segments if there are any, normalized.
void convert_embed_layer_norm(NodeImport& node) {
  if (node.rank(kTokens) != 2) fail("input_ids of {} dimensions, expected 2", node.rank(kTokens));
  const bool has_codes = node.op() == "QEmbedLayerNormalization";
  NodeInput places;
  if (node.has_input(kTokenPlaces) && !has_codes) {
    places = node.input(kTokenPlaces);
  } else {
    places = node.add("unsqueeze",
                      {node.integers_below(node.size_of(node.input(kTokens), 1)), NodeImport::list_of({0})});
  }
  NodeInput sum = rows_of_table(node, kTokenTable, node.input(kTokens));
  sum = node.add("add", {sum, rows_of_table(node, kPlaceTable, places)});
  if (node.has_input(kSegments))
    sum = node.add("add", {sum, rows_of_table(node, kSegmentTable, node.input(kSegments))});
  if (has_codes) {
    const auto numbers = [&](size_t input) {
      return NodeImport::parameter(decoded_table(node, input)->values);
    };
    node.set_output(0,
                    node.add("layer_norm", {sum},
                             {{"normalized_shape", Value(node.shape(kNormScale))}, {"eps", epsilon_of(node)}},
                             {{"weight", numbers(kNormScale)}, {"bias", numbers(kNormBias)}}));
  } else {
    node.set_output(
        0, last_normalized(node, sum, {.scale = kNormScale, .bias = kNormBias, .epsilon = epsilon_of(node)}));
  }
  if (node.wants(1)) node.set_output(1, masked_lengths(node));
  if (node.wants(2)) node.set_output(2, sum);
}

void convert_bias_add(NodeImport& node) {
  node.set_output(0, node.add("add", {node.add("add", {node.input(0), node.input(1)}), node.input(2)}));
}

/// One half of the columns times the other's GELU.
void convert_bias_split_gelu(NodeImport& node) {
  const NodeInput sum = node.add("add", {node.input(0), node.input(1)});
  const int64_t columns = node.type_of(sum).shape.back();
  if (columns < 2 || columns % 2 != 0) fail("{} columns, expected an even number", columns);
  const auto half = [&](int64_t begin) {
    return node.add("dynamic_slice", {sum, NodeImport::list_of({begin}),
                                      NodeImport::list_of({begin + columns / 2}), NodeImport::list_of({-1})});
  };
  const NodeInput gate = node.add("gelu", {half(columns / 2)}, {{"approximate", "none"}});
  node.set_output(0, node.add("mul", {half(0), gate}));
}

/// x + y gate
void convert_gated_add(NodeImport& node) {
  node.set_output(0, node.add("add", {node.input(0), node.add("mul", {node.input(1), node.input(2)})}));
}

/// Groups of as many of the last elements as there are scales, normalized, times a function of the gate.
void convert_gated_rms_norm(NodeImport& node) {
  const std::string function = node.text("activation", "silu");
  if (function != "silu" && function != "swish" && function != "sigmoid")
    fail("activation \"{}\", expected silu, swish or sigmoid", function);
  const auto count = node.size(1, 0);
  if (!count || node.rank(0) < 1) node.refuse("an open number of scales");
  std::vector<int64_t> sizes(node.rank(0) - 1, 0);  // as they are
  sizes.insert(sizes.end(), {-1, *count});
  const NodeInput groups = node.add("dynamic_reshape", {node.input(0), NodeImport::list_of(sizes)});
  const LastNorm norm = {.scale = 1,
                         .bias = std::nullopt,
                         .by_root_mean_square = true,
                         .epsilon = node.number("epsilon", 1e-5F)};
  const NodeInput normed =
      node.add("flatten", {last_normalized(node, groups, norm)}, {{"start_dim", -2}, {"end_dim", -1}});
  const NodeInput gate = node.add(function == "sigmoid" ? "sigmoid" : "silu", {node.input(2)});
  node.set_output(0, node.add("mul", {normed, gate}));
}

}  // namespace

OnnxConverterList microsoft_normalization_converters() {
  return {{"SkipLayerNormalization", convert_skip_layer_norm},
          {"SkipSimplifiedLayerNormalization", convert_skip_rms_norm},
          {"EmbedLayerNormalization", convert_embed_layer_norm},
          {"QEmbedLayerNormalization", convert_embed_layer_norm},
          {"GatedAdd", convert_gated_add},
          {"GatedRMSNorm", convert_gated_rms_norm},
          {"BiasAdd", convert_bias_add},
          {"BiasSplitGelu", convert_bias_split_gelu}};
}

}  // namespace detent

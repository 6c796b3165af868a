#include <numeric>

#include "detent/core/error.h"
#include "detent/operators/layers/onnx_import.h"
#include "detent/operators/onnx_import.h"

namespace detent {
namespace {

/// Throws Error where one of the inputs is missing.
bool are_constant(const NodeImport& node, size_t first, size_t last) {
  for (size_t i = first; i <= last; ++i) {
    static_cast<void>(node.input_name(i));
    if (node.constant(i) == nullptr || node.constant(i)->dtype() != DType::kFloat32) return false;
  }
  return true;
}

/// A vector of channels as [C, 1, ...], to broadcast with [N, C, ...].
NodeInput along_channels(NodeImport& node, size_t input) {
  std::vector<int64_t> dims(node.rank(0) - 2);
  std::iota(dims.begin(), dims.end(), 1);
  return dims.empty() ? node.input(input)
                      : node.add("unsqueeze", {node.input(input), NodeImport::list_of(dims)});
}

Standardized standardized(NodeImport& node, const NodeInput& x, NodeInput mean, NodeInput variance,
                          double epsilon) {
  const NodeInput centred = node.add("sub", {x, mean});
  const NodeInput shifted = node.add("add", {std::move(variance), NodeImport::number_of(epsilon)});
  const NodeInput deviation = node.add("sqrt", {shifted});
  return {node.add("div", {centred, deviation}), std::move(mean), deviation};
}

/// With the statistics of the batch itself, and what becomes of those that are kept.
void convert_training_batch_norm(NodeImport& node) {
  node.warn(
      "it is in training mode: its statistics are those of the samples that run together, which so change "
      "each other's results (quantization takes them one at a time); exported in evaluation mode "
      "(model.eval() in PyTorch) it would keep those of training");
  std::vector<int64_t> dims(node.rank(0));
  std::iota(dims.begin(), dims.end(), 0);
  std::erase(dims, 1);
  const NodeInput x = node.input(0);
  const NodeInput mean = node.add("mean", {x, NodeImport::list_of(dims)});
  const auto spread = [&](NodeInput channels) {
    std::vector<int64_t> others(dims.size() - 1);
    std::iota(others.begin(), others.end(), 1);
    return others.empty() ? channels
                          : node.add("unsqueeze", {std::move(channels), NodeImport::list_of(others)});
  };
  const NodeInput centred = node.add("sub", {x, spread(mean)});
  const NodeInput squares = node.add("mul", {centred, centred});
  const NodeInput variance = node.add("mean", {squares, NodeImport::list_of(dims)});
  const Standardized y = standardized(node, x, spread(mean), spread(variance), node.number("epsilon", 1e-5F));
  const NodeInput scaled = node.add("mul", {y.value, along_channels(node, 1)});
  node.set_output(0, node.add("add", {scaled, along_channels(node, 2)}));
  const double momentum = node.number("momentum", 0.9F);
  const auto kept = [&](size_t input, const NodeInput& of_batch) {
    const NodeInput before = node.add("mul", {node.input(input), NodeImport::number_of(momentum)});
    const NodeInput now = node.add("mul", {of_batch, NodeImport::number_of(1 - momentum)});
    return node.add("add", {before, now});
  };
  if (node.wants(1)) node.set_output(1, kept(3, mean));
  if (node.wants(2)) node.set_output(2, kept(4, variance));
}

void convert_batch_norm(NodeImport& node) {
  constexpr int64_t kHasMode = 14;
  const bool trains = node.integer("training_mode", 0) != 0;
  if (trains && node.opset() >= kHasMode && node.rank(0) >= 2) return convert_training_batch_norm(node);
  if (trains || node.wants(1)) node.refuse("training mode before opset 14");
  const double epsilon = node.number("epsilon", 1e-5F);
  const size_t rank = node.rank(0);
  if (rank >= 2 && rank <= 5 && are_constant(node, 1, 4)) {
    const NodeImport::Parameters parameters = {{"weight", node.parameter(1)},
                                               {"bias", node.parameter(2)},
                                               {"running_mean", node.parameter(3, false)},
                                               {"running_var", node.parameter(4, false)}};
    const size_t dims = rank <= 3 ? 1 : rank - 2;
    // The share that the statistics so far keep; PyTorch's is that of the batch.
    const double momentum = 1 - node.number("momentum", 0.9F);
    node.set_output(0, node.add(fmt::format("batch_norm{}d", dims), {node.input(0)},
                                {{"eps", epsilon}, {"momentum", momentum}}, parameters));
    return;
  }
  if (rank < 2) node.refuse(fmt::format("an input of {} dimensions", rank));
  const Standardized x =
      standardized(node, node.input(0), along_channels(node, 3), along_channels(node, 4), epsilon);
  const NodeInput scaled = node.add("mul", {x.value, along_channels(node, 1)});
  node.set_output(0, node.add("add", {scaled, along_channels(node, 2)}));
}

/// A norm of images, as which signals and volumes are seen.
void give_image_norm(NodeImport& node, double epsilon) {
  const NodeImport::Parameters parameters = {{"weight", node.parameter(1)}, {"bias", node.parameter(2)}};
  const NodeInput x = node.input(0);
  NodeInput images = x;
  if (node.rank(0) == 3) images = node.add("unsqueeze", {x, NodeImport::list_of({3})});
  if (node.rank(0) > 4) images = node.add("flatten", {x}, {{"start_dim", 3}, {"end_dim", -1}});
  NodeInput result = node.add("instance_norm2d", {images}, {{"eps", epsilon}}, parameters);
  if (node.rank(0) == 3) result = node.add("squeeze", {result, NodeImport::list_of({3})});
  if (node.rank(0) > 4) result = node.add("dynamic_reshape", {result, node.add("shape_of", {x})});
  node.set_output(0, result);
}

void convert_instance_norm(NodeImport& node) {
  const double epsilon = node.number("epsilon", 1e-5F);
  if (node.rank(0) >= 3 && are_constant(node, 1, 2)) return give_image_norm(node, epsilon);
  if (node.rank(0) < 3) node.refuse(fmt::format("an input of {} dimensions", node.rank(0)));
  std::vector<int64_t> dims(node.rank(0) - 2);
  std::iota(dims.begin(), dims.end(), 2);
  const Standardized x = standardized_over(node, node.input(0), dims, epsilon);
  const NodeInput scaled = node.add("mul", {x.value, along_channels(node, 1)});
  node.set_output(0, node.add("add", {scaled, along_channels(node, 2)}));
}

/// The sizes of the dimensions from the axis on, where they are known.
std::optional<Shape> normalized_shape(const NodeImport& node, int64_t axis) {
  Shape shape;
  for (int64_t d = axis; d < static_cast<int64_t>(node.rank(0)); ++d) {
    const auto size = node.size(0, d);
    if (!size) return std::nullopt;
    shape.push_back(*size);
  }
  return shape;
}

void convert_layer_norm(NodeImport& node) {
  const double epsilon = node.number("epsilon", 1e-5F);
  const auto rank = static_cast<int64_t>(node.rank(0));
  int64_t axis = node.integer("axis", -1);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) fail("axis {} of {} dimensions", axis, rank);
  const std::optional<Shape> shape = normalized_shape(node, axis);
  const auto has_shape = [&](size_t input) {
    return !node.has_input(input) ||
           (node.constant(input) != nullptr && node.constant(input)->shape() == *shape);
  };
  const bool is_layer =
      shape && are_constant(node, 1, node.has_input(2) ? 2 : 1) && has_shape(1) && has_shape(2);
  if (is_layer && !node.wants(1) && !node.wants(2)) {
    NodeImport::Parameters parameters = {{"weight", node.parameter(1)}};
    if (node.has_input(2)) parameters.emplace_back("bias", node.parameter(2));
    node.set_output(
        0, node.add("layer_norm", {node.input(0)}, {{"normalized_shape", Value(*shape)}, {"eps", epsilon}},
                    std::move(parameters)));
    return;
  }
  std::vector<int64_t> dims(static_cast<size_t>(rank - axis));
  std::iota(dims.begin(), dims.end(), axis);
  const Standardized x = standardized_over(node, node.input(0), dims, epsilon);
  NodeInput result = node.add("mul", {x.value, node.input(1)});
  if (node.has_input(2)) result = node.add("add", {result, node.input(2)});
  node.set_output(0, result);
  if (node.wants(1)) node.set_output(1, x.mean);
  if (node.wants(2)) node.set_output(2, node.add("reciprocal", {x.deviation}));
  for (const size_t statistic : {size_t{1}, size_t{2}})  // whatever the input's floats are
    if (node.wants(statistic)) node.set_float_type(statistic, DType::kFloat32);
}

/// Numbers of groups of channels, or, from opset 21 on, of channels.
Tensor of_channels(const Tensor& numbers, int64_t channels) {
  if (numbers.numel() == channels) return numbers;
  if (numbers.numel() == 0 || channels % numbers.numel() != 0)
    fail("{} numbers for {} channels", numbers.numel(), channels);
  const auto each = static_cast<size_t>(channels / numbers.numel());
  Tensor result(DType::kFloat32, {channels});
  const auto from = numbers.values<float>();
  const auto to = result.values<float>();
  for (size_t i = 0; i < to.size(); ++i) to[i] = from[i / each];
  return result;
}

/// With a scale and a bias of each channel that are computed.
void convert_computed_group_norm(NodeImport& node, int64_t channels) {
  const int64_t groups = node.integer("num_groups", 0);
  if (groups < 1 || channels % groups != 0) fail("{} groups of {} channels", groups, channels);
  for (const size_t i : {size_t{1}, size_t{2}}) {
    if (node.rank(i) != 1 || node.size(i, 0) != channels)
      node.refuse("a scale or bias of each group that is not constant");
  }
  const NodeInput x = node.input(0);
  const NodeInput parts = node.add("dynamic_reshape", {x, NodeImport::list_of({0, groups, -1})});
  const Standardized y = standardized_over(node, parts, {2}, node.number("epsilon", 1e-5F));
  const NodeInput whole = node.add("dynamic_reshape", {y.value, node.add("shape_of", {x})});
  const NodeInput scaled = node.add("mul", {whole, along_channels(node, 1)});
  node.set_output(0, node.add("add", {scaled, along_channels(node, 2)}));
}

void convert_group_norm(NodeImport& node) {
  const auto channels = node.size(0, 1);
  if (!channels) node.refuse("an open number of channels");
  if (!are_constant(node, 1, 2)) return convert_computed_group_norm(node, *channels);
  const NodeImport::Parameters parameters = {
      {"weight", NodeImport::parameter(of_channels(*node.constant(1), *channels))},
      {"bias", NodeImport::parameter(of_channels(*node.constant(2), *channels))}};
  node.set_output(
      0, node.add("group_norm", {node.input(0)},
                  {{"num_groups", node.integer("num_groups", 0)}, {"eps", node.number("epsilon", 1e-5F)}},
                  parameters));
}

/// x / sqrt(mean of x^2 + epsilon) over the dimensions from the axis on, times a scale.
void convert_rms_norm(NodeImport& node) {
  const auto rank = static_cast<int64_t>(node.rank(0));
  int64_t axis = node.integer("axis", -1);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) fail("axis {} of {} dimensions", axis, rank);
  const double epsilon = node.number("epsilon", 1e-5F);
  const std::optional<Shape> shape = normalized_shape(node, axis);
  if (shape && are_constant(node, 1, 1) && node.constant(1)->shape() == *shape) {
    node.set_output(
        0, node.add("rms_norm", {node.input(0)}, {{"normalized_shape", Value(*shape)}, {"eps", epsilon}},
                    {{"weight", node.parameter(1)}}));
    return;
  }
  std::vector<int64_t> dims(static_cast<size_t>(rank - axis));
  std::iota(dims.begin(), dims.end(), axis);
  const NodeInput x = over_root_mean_square(node, node.input(0), dims, epsilon);
  node.set_output(0, node.add("mul", {x, node.input(1)}));
}

/// x / (bias + alpha mean)^beta, where the mean is of the squares of so many channels around each, beyond
/// which there are zeros.
void convert_local_response_norm(NodeImport& node) {
  const int64_t size = node.integer("size", 0);
  const auto channels = node.size(0, 1);
  if (!channels) node.refuse("an open number of channels");
  if (size < 1 || size > 2 * *channels)
    fail("size is {}, expected 1 to twice the number of channels, {}", size, *channels);
  const NodeInput x = node.input(0);
  const NodeInput squares = node.add("mul", {x, x});
  const NodeInput images = node.add("dynamic_reshape", {squares, NodeImport::list_of({0, 1, *channels, -1})});
  const std::vector<int64_t> padding = {(size - 1) / 2, 0, size - 1 - (size - 1) / 2, 0};
  const NodeInput means = node.add("avg_pool_with_border", {images},
                                   {{"kernel_size", Value(std::vector<int64_t>{size, 1})},
                                    {"stride", 1},
                                    {"padding", Value(padding)},
                                    {"count_include_pad", true}});
  const NodeInput shaped = node.add("dynamic_reshape", {means, node.add("shape_of", {x})});
  const auto number = [&](const char* name, float otherwise) {
    return NodeImport::number_of(node.number(name, static_cast<double>(otherwise)));
  };
  const NodeInput scaled = node.add("mul", {shaped, number("alpha", 0.0001F)});
  const NodeInput shifted = node.add("add", {scaled, number("bias", 1)});
  node.set_output(0, node.add("div", {x, node.add("pow", {shifted, number("beta", 0.75F)})}));
}

/// (x - mean) / sqrt(variance) over the axes. As the operator's definition has it, with 1e-9 added to the
/// deviation.
void convert_mean_variance(NodeImport& node) {
  constexpr double kEpsilon = 1e-9;
  const std::vector<int64_t> dims = node.integers("axes", {0, 2, 3});
  const NodeInput x = node.input(0);
  const NodeInput mean = reduced_mean(node, x, dims);
  const NodeInput centred = node.add("sub", {x, mean});
  const NodeInput variance = reduced_mean(node, node.add("mul", {centred, centred}), dims);
  const NodeInput deviation =
      node.add("add", {node.add("sqrt", {variance}), NodeImport::number_of(kEpsilon)});
  node.set_output(0, node.add("div", {centred, deviation}));
}

}  // namespace

NodeInput reduced_mean(NodeImport& node, NodeInput x, const std::vector<int64_t>& dims) {
  return node.add("mean", {std::move(x), NodeImport::list_of(dims)}, {{"keepdim", true}});
}

Standardized standardized_over(NodeImport& node, const NodeInput& x, const std::vector<int64_t>& dims,
                               double epsilon) {
  const NodeInput mean = reduced_mean(node, x, dims);
  const NodeInput centred = node.add("sub", {x, mean});
  const NodeInput variance = reduced_mean(node, node.add("mul", {centred, centred}), dims);
  return standardized(node, x, mean, variance, epsilon);
}

NodeInput over_root_mean_square(NodeImport& node, const NodeInput& x, const std::vector<int64_t>& dims,
                                double epsilon) {
  const NodeInput squares = reduced_mean(node, node.add("mul", {x, x}), dims);
  const NodeInput root = node.add("sqrt", {node.add("add", {squares, NodeImport::number_of(epsilon)})});
  return node.add("div", {x, root});
}

OnnxConverterList layer_norm_converters() {
  return {{"LayerNormalization", convert_layer_norm}, {"SimplifiedLayerNormalization", convert_rms_norm}};
}

OnnxConverterList normalization_converters() {
  return {
      {"BatchNormalization", convert_batch_norm},           {"InstanceNormalization", convert_instance_norm},
      {"GroupNormalization", convert_group_norm},           {"RMSNormalization", convert_rms_norm},
      {"MeanVarianceNormalization", convert_mean_variance}, {"LRN", convert_local_response_norm}};
}

}  // namespace detent

#include <limits>
#include <numeric>

#include "detent/core/error.h"
#include "detent/operators/onnx_export.h"

namespace detent {
namespace {

constexpr int64_t kLayerNormSince = 17;
constexpr int64_t kGroupNormSince = 21;  // with a weight for each channel
constexpr int64_t kAxesAreInputSince = 18;

void export_batch_norm(NodeExport& node) {
  const Shape channels = node.find_parameter("running_mean")->shape();
  node.emit("BatchNormalization",
            {node.input(0), node.parameter_or("weight", 1, channels), node.parameter_or("bias", 0, channels),
             node.parameter("running_mean"), node.parameter("running_var")},
            {{"epsilon", node.number("eps")}, {"momentum", 1 - node.number("momentum")}});
}

Shape channels_of(const NodeExport& node) {
  const auto channels = node.size(0, 1);
  if (!channels) node.refuse("the number of channels is open");
  return {*channels};
}

void export_instance_norm(NodeExport& node) {
  if (node.find_parameter("running_mean") != nullptr) return export_batch_norm(node);
  const Shape channels = channels_of(node);
  node.emit("InstanceNormalization",
            {node.input(0), node.parameter_or("weight", 1, channels), node.parameter_or("bias", 0, channels)},
            {{"epsilon", node.number("eps")}});
}

/// Over the last `count` dimensions, which stay.
std::string mean_of_last(NodeExport& node, const std::string& value, size_t count) {
  std::vector<int64_t> axes(count);
  std::iota(axes.begin(), axes.end(), -static_cast<int64_t>(count));
  if (node.opset() >= kAxesAreInputSince) return node.add("ReduceMean", {value, node.list_of(axes)});
  return node.add("ReduceMean", {value}, {{"axes", Value(axes)}});
}

/// value / sqrt(mean square + eps)
std::string over_deviation(NodeExport& node, const std::string& value, size_t count, double eps) {
  const std::string square = mean_of_last(node, node.add("Mul", {value, value}), count);
  const std::string deviation = node.add("Sqrt", {node.add("Add", {square, node.number_of(eps)})});
  return node.add("Div", {value, deviation});
}

/// times weight plus bias, as far as they are there.
void emit_scaled(NodeExport& node, std::string value) {
  const std::string weight = node.parameter("weight");
  const std::string bias = node.parameter("bias");
  if (weight.empty() && bias.empty()) return node.emit("Identity", {value});
  if (bias.empty()) return node.emit("Mul", {value, weight});
  if (!weight.empty()) value = node.add("Mul", {value, weight});
  node.emit("Add", {value, bias});
}

void export_layer_norm(NodeExport& node) {
  const Shape shape = node.integers("normalized_shape");
  if (node.opset() >= kLayerNormSince) {
    return node.emit("LayerNormalization",
                     {node.input(0), node.parameter_or("weight", 1, shape), node.parameter("bias")},
                     {{"axis", -std::ssize(shape)}, {"epsilon", node.number("eps")}});
  }
  const std::string input = node.input(0);
  const std::string centred = node.add("Sub", {input, mean_of_last(node, input, shape.size())});
  emit_scaled(node, over_deviation(node, centred, shape.size(), node.number("eps")));
}

void export_rms_norm(NodeExport& node) {
  const bool is_given = !node.node().attributes.find("eps")->is_na();
  const double eps = is_given ? node.number("eps") : double{std::numeric_limits<float>::epsilon()};
  const size_t count = node.integers("normalized_shape").size();
  emit_scaled(node, over_deviation(node, node.input(0), count, eps));
}

/// The channels of a group as one channel of one long dimension, which instance normalization knows.
void export_group_norm(NodeExport& node) {
  const Shape channels = channels_of(node);
  const int64_t groups = node.integer("num_groups");
  if (node.opset() >= kGroupNormSince) {
    return node.emit(
        "GroupNormalization",
        {node.input(0), node.parameter_or("weight", 1, channels), node.parameter_or("bias", 0, channels)},
        {{"epsilon", node.number("eps")}, {"num_groups", groups}});
  }
  const std::string input = node.input(0);
  const std::string grouped = node.add("Reshape", {input, node.list_of({0, groups, -1})});
  const auto constant = [&](float value) {
    Tensor tensor(DType::kFloat32, {groups});
    for (float& element : tensor.values<float>()) element = value;
    return node.constant(tensor, "of_groups");
  };
  const std::string normalized = node.add("InstanceNormalization", {grouped, constant(1), constant(0)},
                                          {{"epsilon", node.number("eps")}});
  std::string value = node.add("Reshape", {normalized, node.add("Shape", {input})});
  std::vector<int64_t> dims(node.rank(0) - 2);
  std::iota(dims.begin(), dims.end(), 1);
  const auto along_channels = [&](const std::string& vector) {
    return dims.empty() ? vector : node.add("Unsqueeze", {vector, node.list_of(dims)});
  };
  value = node.add("Mul", {value, along_channels(node.parameter_or("weight", 1, channels))});
  node.emit("Add", {value, along_channels(node.parameter_or("bias", 0, channels))});
}

}  // namespace

OnnxExporterList normalization_exporters() {
  return {{"batch_norm1d", export_batch_norm}, {"batch_norm2d", export_batch_norm},
          {"batch_norm3d", export_batch_norm}, {"instance_norm2d", export_instance_norm},
          {"layer_norm", export_layer_norm},   {"rms_norm", export_rms_norm},
          {"group_norm", export_group_norm}};
}

}  // namespace detent

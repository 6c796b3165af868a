#include <algorithm>

#include "detent/core/error.h"
#include "detent/onnx/exporters/exporters.h"

namespace detent {
namespace {

/// Windows that begin inside count only where the sizes do not divide; where they do, files need not say so.
bool rounds_up(const NodeExport& node, size_t dims) {
  if (!node.flag("ceil_mode")) return false;
  const auto kernel = node.integers("kernel_size", dims);
  const auto stride = pool_stride(node.node(), dims);
  const auto padding = node.integers("padding", dims);
  const bool dilated = node.node().attributes.contains("dilation");
  const auto dilation = dilated ? node.integers("dilation", dims) : std::vector<int64_t>(dims, 1);
  for (size_t i = 0; i < dims; ++i) {
    const auto size = node.size(0, i + 2);
    if (!size) return true;
    if ((*size + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) % stride[i] != 0) return true;
  }
  return false;
}

Table window_attributes(const NodeExport& node) {
  const size_t dims = node.rank(0) - 2;
  std::vector<int64_t> pads = node.integers("padding", dims);
  pads.insert(pads.end(), pads.begin(), pads.begin() + static_cast<int64_t>(dims));
  return {{"kernel_shape", Value(node.integers("kernel_size", dims))},
          {"strides", Value(pool_stride(node.node(), dims))},
          {"pads", Value(pads)},
          {"ceil_mode", rounds_up(node, dims)}};
}

void export_max_pool(NodeExport& node) {
  Table attributes = window_attributes(node);
  attributes["dilations"] = Value(node.integers("dilation", node.rank(0) - 2));
  node.emit("MaxPool", {node.input(0)}, std::move(attributes));
}

/// The border lies before each dimension, then behind each.
void export_max_pool_with_places(NodeExport& node) {
  const size_t dims = node.rank(0) - 2;
  node.emit("MaxPool", {node.input(0)},
            {{"kernel_shape", Value(node.integers("kernel_size", dims))},
             {"strides", Value(pool_stride(node.node(), dims))},
             {"pads", Value(node.integers("padding", 2 * dims))},
             {"ceil_mode", node.flag("ceil_mode")},
             {"dilations", Value(node.integers("dilation", dims))},
             {"storage_order", node.flag("column_major")}});
}

void export_average_pool(NodeExport& node) {
  Table attributes = window_attributes(node);
  attributes["count_include_pad"] = node.flag("count_include_pad");
  node.emit("AveragePool", {node.input(0)}, std::move(attributes));
}

/// One window is all there is; several must be equal.
template <bool kMean>
void export_adaptive(NodeExport& node) {
  const size_t dims = node.rank(0) - 2;
  const std::vector<int64_t> wanted = node.integers("output_size", dims);
  if (std::ranges::all_of(wanted, [](int64_t size) { return size == 1; }))
    return node.emit(kMean ? "GlobalAveragePool" : "GlobalMaxPool", {node.input(0)});
  std::vector<int64_t> window;
  for (size_t i = 0; i < dims; ++i) {
    const auto size = node.size(0, i + 2);
    if (!size || *size % wanted[i] != 0) {
      node.refuse(fmt::format("{} windows of {} positions are not equal ones", wanted[i],
                              size ? std::to_string(*size) : "an open number of"));
    }
    window.push_back(*size / wanted[i]);
  }
  node.emit(kMean ? "AveragePool" : "MaxPool", {node.input(0)},
            {{"kernel_shape", Value(window)}, {"strides", Value(window)}});
}

}  // namespace

OnnxExporterList pooling_exporters() {
  return {{"max_pool1d", export_max_pool},
          {"max_pool2d", export_max_pool},
          {"max_pool3d", export_max_pool},
          {"max_pool_with_places", export_max_pool_with_places},
          {"avg_pool1d", export_average_pool},
          {"avg_pool2d", export_average_pool},
          {"avg_pool3d", export_average_pool},
          {"adaptive_avg_pool1d", export_adaptive<true>},
          {"adaptive_avg_pool2d", export_adaptive<true>},
          {"adaptive_avg_pool3d", export_adaptive<true>},
          {"adaptive_max_pool1d", export_adaptive<false>},
          {"adaptive_max_pool2d", export_adaptive<false>},
          {"adaptive_max_pool3d", export_adaptive<false>}};
}

}  // namespace detent

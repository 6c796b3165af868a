#include <algorithm>

#include "detent/core/error.h"
#include "detent/operators/onnx_export.h"

namespace detent {
namespace {

struct Windows {
  std::vector<int64_t> kernel, stride, dilation;
  std::vector<int64_t> before, after;
  bool ceil_mode = false;
};

Windows windows_of(const NodeExport& node, std::vector<int64_t> before, std::vector<int64_t> after) {
  const size_t dims = node.rank(0) - 2;
  const bool dilated = node.node().attributes.contains("dilation");
  return {node.integers("kernel_size", dims),
          pool_stride(node.node(), dims),
          dilated ? node.integers("dilation", dims) : std::vector<int64_t>(dims, 1),
          std::move(before),
          std::move(after),
          node.flag("ceil_mode")};
}

/// A window that would begin in the border at the end is none, which shape inference before ONNX 1.17 counts.
/// So the windows are written without ceil_mode where their number allows it, otherwise with a border that
/// ends where the last window does.
void resolve_ceil_mode(const NodeExport& node, bool counts_border, Windows& windows) {
  if (!windows.ceil_mode) return;
  std::vector<int64_t> widened = windows.after;  // to the end of the last window, for no ceil_mode
  std::vector<int64_t> trimmed = windows.after;  // to it where a further window would begin past it
  bool rounds_down = true;
  bool begins_after = false;
  bool can_trim = true;
  for (size_t i = 0; i < widened.size(); ++i) {
    const auto size = node.size(0, i + 2);
    if (!size) return;
    const int64_t stride = windows.stride[i];
    const int64_t count = node.result_type().shape[i + 2];
    const int64_t span = windows.dilation[i] * (windows.kernel[i] - 1) + 1;
    const int64_t steps = *size + windows.before[i] + widened[i] - span;  // of the first element of windows
    const int64_t needed = (count - 1) * stride + span - *size - windows.before[i];
    const bool is_counted = (steps + stride - 1) / stride + 1 == count;
    rounds_down = rounds_down && steps >= 0 && steps / stride + 1 == count;
    begins_after = begins_after || !is_counted;
    can_trim = can_trim && (is_counted || needed >= 0);
    widened[i] = std::max(needed, is_counted ? widened[i] : 0);
    if (!is_counted) trimmed[i] = needed;
  }
  if (rounds_down) {
    windows.ceil_mode = false;
  } else if (begins_after && counts_border) {
    if (can_trim) windows.after = std::move(trimmed);
  } else if (begins_after && std::ranges::equal(widened, windows.kernel, std::less())) {
    // No reader takes a border as wide as the window.
    windows.after = std::move(widened);
    windows.ceil_mode = false;
  }
}

Table attributes_of(const Windows& windows) {
  std::vector<int64_t> pads = windows.before;
  pads.insert(pads.end(), windows.after.begin(), windows.after.end());
  return {{"kernel_shape", Value(windows.kernel)},
          {"strides", Value(windows.stride)},
          {"pads", Value(pads)},
          {"ceil_mode", windows.ceil_mode}};
}

/// The border is the same on both sides.
Table window_attributes(const NodeExport& node, bool counts_border) {
  const std::vector<int64_t> padding = node.integers("padding", node.rank(0) - 2);
  Windows windows = windows_of(node, padding, padding);
  resolve_ceil_mode(node, counts_border, windows);
  return attributes_of(windows);
}

void export_max_pool(NodeExport& node) {
  Table attributes = window_attributes(node, false);
  attributes["dilations"] = Value(node.integers("dilation", node.rank(0) - 2));
  node.emit("MaxPool", {node.input(0)}, std::move(attributes));
}

/// The border lies before each dimension, then after each.
Table bordered_attributes(const NodeExport& node, bool counts_border) {
  const std::vector<int64_t> padding = node.integers("padding", 2 * (node.rank(0) - 2));
  const auto half = padding.begin() + std::ssize(padding) / 2;
  Windows windows = windows_of(node, {padding.begin(), half}, {half, padding.end()});
  resolve_ceil_mode(node, counts_border, windows);
  Table attributes = attributes_of(windows);
  attributes["dilations"] = Value(windows.dilation);
  return attributes;
}

void export_max_pool_with_places(NodeExport& node) {
  Table attributes = bordered_attributes(node, false);
  attributes["storage_order"] = node.flag("column_major");
  node.emit("MaxPool", {node.input(0)}, std::move(attributes));
}

bool is_dilated(const NodeExport& node) {
  return std::ranges::any_of(node.integers("dilation", node.rank(0) - 2), [](int64_t d) { return d != 1; });
}

void export_average_pool_with_border(NodeExport& node) {
  constexpr int64_t kDilatedSince = 19;
  const bool counts_border = node.flag("count_include_pad");
  Table attributes = bordered_attributes(node, counts_border);
  attributes["count_include_pad"] = counts_border;
  if (is_dilated(node)) {
    node.need_opset(kDilatedSince, "the mean of dilated windows");
  } else {
    attributes.erase("dilations");
  }
  node.emit("AveragePool", {node.input(0)}, std::move(attributes));
}

void export_lp_pool(NodeExport& node) {
  constexpr int64_t kDilatedSince = 18;
  Table attributes = bordered_attributes(node, false);
  attributes["p"] = node.integer("p");
  if (is_dilated(node) || attributes["ceil_mode"] == Value(true)) {
    node.need_opset(kDilatedSince, "LpPool with dilated windows or ceil_mode");
  } else {
    attributes.erase("dilations");
    attributes.erase("ceil_mode");
  }
  node.emit("LpPool", {node.input(0)}, std::move(attributes));
}

void export_average_pool(NodeExport& node) {
  const bool counts_border = node.flag("count_include_pad");
  Table attributes = window_attributes(node, counts_border);
  attributes["count_include_pad"] = counts_border;
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
          {"avg_pool_with_border", export_average_pool_with_border},
          {"lp_pool", export_lp_pool},
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

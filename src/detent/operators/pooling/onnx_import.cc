#include <algorithm>
#include <limits>

#include "detent/core/error.h"
#include "detent/operators/layers/onnx_import.h"
#include "detent/operators/onnx_import.h"

namespace detent {
namespace {

/// Layers take a border of at most half the window, the same on both sides.
bool layer_takes(const ImportedWindow& window) {
  for (size_t i = 0; i < window.kernel.size(); ++i) {
    if (2 * window.before[i] > window.kernel[i]) return false;
  }
  return window.is_symmetric() && window.kernel.size() <= 3;
}

Table attributes_of(const NodeImport& node, const ImportedWindow& window,
                    const std::vector<int64_t>& padding) {
  return {{"kernel_size", Value(window.kernel)},
          {"stride", Value(window.stride)},
          {"padding", Value(padding)},
          {"ceil_mode", node.integer("ceil_mode", 0) != 0}};
}

/// Attributes of an operator whose windows may be dilated and have unequal padding at both ends.
Table bordered_attributes(const NodeImport& node, const ImportedWindow& window) {
  std::vector<int64_t> padding = window.before;
  padding.insert(padding.end(), window.after.begin(), window.after.end());
  Table attributes = attributes_of(node, window, padding);
  attributes["dilation"] = Value(window.dilation);
  return attributes;
}

std::vector<int64_t> no_border(const ImportedWindow& window) {
  return std::vector<int64_t>(window.kernel.size(), 0);
}

std::string of_dims(const char* name, const ImportedWindow& window) {
  return fmt::format("{}{}d", name, window.kernel.size());
}

/// Layers pool floats, which hold integers of few bits.
NodeInput as_float(NodeImport& node, NodeInput input) {
  if (node.type_of(input).dtype == DType::kFloat32) return input;
  return node.add("cast", {std::move(input)}, {{"dtype", "float32"}});
}

NodeInput as_dtype_of(NodeImport& node, NodeInput value, size_t input) {
  const DType dtype = node.type(input).dtype;
  if (dtype == DType::kFloat32) return value;
  return node.add("cast", {std::move(value)}, {{"dtype", std::string(dtype_name(dtype))}});
}

/// The result, and the place of each element among all.
void convert_max_pool_with_places(NodeImport& node, const ImportedWindow& window, NodeInput input) {
  Table attributes = bordered_attributes(node, window);
  attributes["column_major"] = node.integer("storage_order", 0) != 0;
  const NodeInput x = node.add("max_pool_with_places", {std::move(input)}, attributes);
  if (node.wants(1)) node.set_output(1, NodeInput::of(x.node, 1));
  node.set_output(0, as_dtype_of(node, x, 0));
}

/// With ceil_mode a window that begins in the border at the end does not count, which a border that is part
/// of the input could not tell.
void convert_max_pool(NodeImport& node) {
  ImportedWindow window =
      imported_window(node, {}, node.wants(1) ? OpenBorders::kRefused : OpenBorders::kComputed);
  if (node.wants(1) && window.cuts())
    node.refuse("places of windows that are smaller than their stride, with this auto_pad,");
  NodeInput x = cut(node, window, as_float(node, node.input(0)));
  if (window.computed_border)
    x = with_computed_border(node, window, x, -std::numeric_limits<float>::infinity());
  const bool as_it_is = layer_takes(window);
  const bool needs_border = !as_it_is && node.integer("ceil_mode", 0) != 0;
  if (node.wants(1) || needs_border) return convert_max_pool_with_places(node, window, x);
  if (!as_it_is) x = with_border(node, window, x, -std::numeric_limits<float>::infinity());
  Table attributes = attributes_of(node, window, as_it_is ? window.before : no_border(window));
  attributes["dilation"] = Value(window.dilation);
  x = node.add(of_dims("max_pool", window), {x}, std::move(attributes));
  node.set_output(0, as_dtype_of(node, x, 0));
}

/// With the channels last.
void convert_channels_last_max_pool(NodeImport& node) {
  const std::string automatic = node.text("auto_pad", "NOTSET");
  if (automatic != "NOTSET" && automatic != "VALID") node.refuse("auto_pad " + automatic);
  ImportedWindow window = imported_window(node);
  const auto rank = static_cast<int64_t>(node.rank(0));
  std::vector<int64_t> first = {0, rank - 1};
  std::vector<int64_t> last = {0};
  for (int64_t d = 1; d + 1 < rank; ++d) {
    first.push_back(d);
    last.push_back(d + 1);
  }
  last.push_back(1);
  const NodeInput x = node.add("permute", {as_float(node, node.input(0))}, {{"dims", Value(first)}});
  Table attributes = bordered_attributes(node, window);
  const NodeInput pooled = node.add("max_pool_with_places", {x}, std::move(attributes));
  node.set_output(0, as_dtype_of(node, node.add("permute", {pooled}, {{"dims", Value(last)}}), 0));
}

void convert_lp_pool(NodeImport& node) {
  ImportedWindow window = imported_window(node);
  const NodeInput x = cut(node, window, node.input(0));
  Table attributes = bordered_attributes(node, window);
  attributes["p"] = node.integer("p", 2);
  node.set_output(0, node.add("lp_pool", {x}, std::move(attributes)));
}

/// The norm of each channel.
void convert_global_lp_pool(NodeImport& node) {
  const size_t rank = node.rank(0);
  const int64_t p = node.integer("p", 2);
  if (rank < 3 || p < 1) fail("p is {}, of {} dimensions, expected at least 1 and 3", p, rank);
  std::vector<int64_t> dims;
  for (size_t d = 2; d < rank; ++d) dims.push_back(static_cast<int64_t>(d));
  const NodeInput x = node.input(0);
  NodeInput powers = p == 2 ? node.add("mul", {x, x}) : node.add("abs", {x});
  if (p > 2) powers = node.add("pow", {powers, NodeImport::number_of(static_cast<double>(p))});
  NodeInput sum = node.add("sum", {powers, NodeImport::list_of(dims)}, {{"keepdim", true}});
  if (p == 2) sum = node.add("sqrt", {sum});
  if (p > 2) sum = node.add("pow", {sum, NodeImport::number_of(1 / static_cast<double>(p))});
  node.set_output(0, sum);
}

template <bool kMean>
void convert_global_pool(NodeImport& node) {
  if (node.rank(0) < 3 || node.rank(0) > 5)
    node.refuse(fmt::format("an input of {} dimensions", node.rank(0)));
  const char* const name = kMean ? "adaptive_avg_pool" : "adaptive_max_pool";
  node.set_output(
      0, node.add(fmt::format("{}{}d", name, node.rank(0) - 2), {node.input(0)}, {{"output_size", 1}}));
}

void convert_average_pool(NodeImport& node) { node.set_output(0, average_pooled(node, node.input(0))); }

}  // namespace

NodeInput average_pooled(NodeImport& node, NodeInput input) {
  ImportedWindow window = imported_window(node);
  input = cut(node, window, std::move(input));
  const bool counts = node.integer("count_include_pad", 0) != 0;
  const bool is_dilated = std::ranges::any_of(window.dilation, [](int64_t d) { return d != 1; });
  if (layer_takes(window) && !is_dilated) {
    Table attributes = attributes_of(node, window, window.before);
    attributes["count_include_pad"] = counts;
    return node.add(of_dims("avg_pool", window), {std::move(input)}, std::move(attributes));
  }
  if (is_dilated || !counts || node.integer("ceil_mode", 0) != 0) {
    Table attributes = bordered_attributes(node, window);
    attributes["count_include_pad"] = counts;
    return node.add("avg_pool_with_border", {std::move(input)}, std::move(attributes));
  }
  return node.add(of_dims("avg_pool", window), {with_border(node, window, std::move(input), 0)},
                  attributes_of(node, window, no_border(window)));
}

OnnxConverterList channels_last_pooling_converters() {
  return {{"NhwcMaxPool", convert_channels_last_max_pool}, {"MaxPoolNHWC", convert_channels_last_max_pool}};
}

OnnxConverterList pooling_converters() {
  return {{"MaxPool", convert_max_pool},
          {"AveragePool", convert_average_pool},
          {"LpPool", convert_lp_pool},
          {"GlobalLpPool", convert_global_lp_pool},
          {"GlobalAveragePool", convert_global_pool<true>},
          {"GlobalMaxPool", convert_global_pool<false>}};
}

}  // namespace detent

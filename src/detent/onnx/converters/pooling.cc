#include <algorithm>
#include <limits>

#include "detent/core/error.h"
#include "detent/onnx/converters/converters.h"
#include "detent/onnx/converters/windows.h"

namespace detent {
namespace {

/// Layers take a border of at most half the window, the same on both sides.
bool layer_takes(const ImportedWindow& window) {
  for (size_t i = 0; i < window.kernel.size(); ++i) {
    if (2 * window.before[i] > window.kernel[i]) return false;
  }
  return window.is_symmetric() && window.kernel.size() <= 3;
}

Table attributes_of(const NodeImport& node, const ImportedWindow& window, bool bordered) {
  const std::vector<int64_t> none(window.kernel.size(), 0);
  return {{"kernel_size", Value(window.kernel)},
          {"stride", Value(window.stride)},
          {"padding", Value(bordered ? window.before : none)},
          {"ceil_mode", node.integer("ceil_mode", 0) != 0}};
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
void convert_max_pool_with_places(NodeImport& node, const ImportedWindow& window) {
  std::vector<int64_t> padding = window.before;
  padding.insert(padding.end(), window.behind.begin(), window.behind.end());
  NodeInput x = as_float(node, node.input(0));
  x = node.add("max_pool_with_places", {x},
               {{"kernel_size", Value(window.kernel)},
                {"stride", Value(window.stride)},
                {"padding", Value(padding)},
                {"dilation", Value(window.dilation)},
                {"ceil_mode", node.integer("ceil_mode", 0) != 0},
                {"column_major", node.integer("storage_order", 0) != 0}});
  node.set_output(1, NodeInput::of(x.node, 1));
  node.set_output(0, as_dtype_of(node, x, 0));
}

void convert_max_pool(NodeImport& node) {
  const ImportedWindow window = imported_window(node);
  if (node.wants(1)) return convert_max_pool_with_places(node, window);
  const bool as_it_is = layer_takes(window);
  NodeInput x = as_float(node, node.input(0));
  if (!as_it_is) x = with_border(node, window, x, -std::numeric_limits<float>::max());
  Table attributes = attributes_of(node, window, as_it_is);
  attributes["dilation"] = Value(window.dilation);
  x = node.add(of_dims("max_pool", window), {x}, std::move(attributes));
  node.set_output(0, as_dtype_of(node, x, 0));
}

/// Where a border does not count and the layer cannot leave it out: the mean with it, over the share of each
/// window that lies inside.
NodeInput mean_inside(NodeImport& node, const ImportedWindow& window, NodeInput input) {
  const auto mean = [&](NodeInput x) {
    return node.add(of_dims("avg_pool", window), {std::move(x)}, attributes_of(node, window, false));
  };
  Shape inside = {1, 1};
  Shape whole = {1, 1};
  for (size_t i = 0; i < window.kernel.size(); ++i) {
    const auto size = node.size(0, static_cast<int64_t>(i) + 2);
    if (!size) node.refuse(fmt::format("such a border where the size of dimension {} is open", i + 2));
    inside.push_back(*size);
    whole.push_back(*size + window.before[i] + window.behind[i]);
  }
  constexpr int64_t kMostPositions = int64_t{1} << 22;  // each has a number, of a share
  if (element_count(inside) > kMostPositions)
    node.refuse(fmt::format("such a border around {} positions", element_count(inside)));
  Tensor ones(DType::kFloat32, inside);
  std::ranges::fill(ones.values<float>(), 1.0F);
  std::vector<int64_t> pad;
  for (size_t i = window.before.size(); i-- > 0;) {
    pad.push_back(window.before[i]);
    pad.push_back(window.behind[i]);
  }
  const NodeInput padded = node.add("pad", {std::move(input)}, {{"pad", Value(pad)}});
  const NodeInput share = node.add("pad", {node.constant_of(ones)}, {{"pad", Value(pad)}});
  return node.add("div", {mean(padded), mean(share)});
}

/// (sum |x|^p)^(1/p) over each window.
void convert_lp_pool(NodeImport& node) {
  const ImportedWindow window = imported_window(node);
  const auto p = static_cast<double>(node.integer("p", 2));
  double count = 1;
  for (const int64_t size : window.kernel) count *= static_cast<double>(size);
  NodeInput x = node.add("abs", {with_border(node, window, node.input(0), 0)});
  x = node.add("pow", {x, NodeImport::number_of(p)});
  x = node.add(of_dims("avg_pool", window), {x}, attributes_of(node, window, false));
  x = node.add("mul", {x, NodeImport::number_of(count)});
  node.set_output(0, node.add("pow", {x, NodeImport::number_of(1 / p)}));
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
  const ImportedWindow window = imported_window(node);
  if (std::ranges::any_of(window.dilation, [](int64_t d) { return d != 1; })) node.refuse("a dilation");
  const bool counts = node.integer("count_include_pad", 0) != 0;
  if (layer_takes(window)) {
    Table attributes = attributes_of(node, window, true);
    attributes["count_include_pad"] = counts;
    return node.add(of_dims("avg_pool", window), {std::move(input)}, std::move(attributes));
  }
  if (!counts) return mean_inside(node, window, std::move(input));
  return node.add(of_dims("avg_pool", window), {with_border(node, window, std::move(input), 0)},
                  attributes_of(node, window, false));
}

OnnxConverterList pooling_converters() {
  return {{"MaxPool", convert_max_pool},
          {"AveragePool", convert_average_pool},
          {"LpPool", convert_lp_pool},
          {"GlobalAveragePool", convert_global_pool<true>},
          {"GlobalMaxPool", convert_global_pool<false>}};
}

}  // namespace detent

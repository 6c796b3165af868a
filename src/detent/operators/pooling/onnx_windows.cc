#include "detent/operators/layers/onnx_import.h"

#include <algorithm>
#include <numeric>

#include "detent/core/error.h"
#include "detent/formats/verbs.h"

namespace detent {
namespace {

/// Borders that give ceil(size / stride) windows; an odd one more after (SAME_UPPER) or before (SAME_LOWER).
/// Where the stride is larger than the window they are below 0: what no window reads is cut off, half of it
/// before, as the formula of ONNX has it.
void set_same_border(const NodeImport& node, bool upper, OpenBorders borders, ImportedWindow& window) {
  for (size_t i = 0; i < window.kernel.size(); ++i) {
    const auto known = node.size(0, static_cast<int64_t>(i) + 2);
    if (!known && window.stride[i] > 1) {
      if (borders == OpenBorders::kRefused)
        node.refuse(fmt::format("auto_pad where the size of dimension {} is open", i + 2));
      window.computed_border = true;
    }
    const int64_t size = known.value_or(1);  // of no matter where the stride is 1
    const int64_t count = (size + window.stride[i] - 1) / window.stride[i];
    const int64_t span = (count - 1) * window.stride[i] + (window.kernel[i] - 1) * window.dilation[i] + 1;
    const int64_t border = span - size;
    window.before[i] = (upper ? border : border + 1) / 2;
    window.after[i] = border - window.before[i];
  }
  if (window.computed_border) {
    window.before.assign(window.kernel.size(), 0);
    window.after = window.before;
  }
}

}  // namespace

bool ImportedWindow::has_border() const {
  const auto is_some = [](int64_t size) { return size != 0; };
  return std::ranges::any_of(before, is_some) || std::ranges::any_of(after, is_some);
}

bool ImportedWindow::is_symmetric() const { return before == after && !cuts(); }

bool ImportedWindow::cuts() const {
  const auto is_cut = [](int64_t size) { return size < 0; };
  return std::ranges::any_of(before, is_cut) || std::ranges::any_of(after, is_cut);
}

ImportedWindow imported_window(const NodeImport& node, const std::optional<std::vector<int64_t>>& kernel,
                               OpenBorders borders) {
  if (node.rank(0) < 3) node.refuse(fmt::format("an input of {} dimensions", node.rank(0)));
  const size_t dims = node.rank(0) - 2;
  ImportedWindow window;
  window.kernel = node.integers("kernel_shape", kernel.value_or(std::vector<int64_t>()));
  window.stride = node.integers("strides", std::vector<int64_t>(dims, 1));
  window.dilation = node.integers("dilations", std::vector<int64_t>(dims, 1));
  const std::vector<int64_t> pads = node.integers("pads", std::vector<int64_t>(2 * dims, 0));
  if (window.kernel.size() != dims || window.stride.size() != dims || window.dilation.size() != dims ||
      pads.size() != 2 * dims) {
    fail("kernel_shape, strides, dilations and pads have other numbers than {} dimensions ask for", dims);
  }
  for (size_t i = 0; i < dims; ++i) {
    if (window.kernel[i] < 1 || window.stride[i] < 1 || window.dilation[i] < 1 || pads[i] < 0 ||
        pads[i + dims] < 0)
      fail("kernel {}, stride {}, dilation {}, pads {} and {}: expected at least 1, pads at least 0",
           window.kernel[i], window.stride[i], window.dilation[i], pads[i], pads[i + dims]);
  }
  const auto half = pads.begin() + static_cast<int64_t>(dims);
  window.before.assign(pads.begin(), half);
  window.after.assign(half, pads.end());
  const std::string automatic = node.text("auto_pad", "NOTSET");
  if (automatic == "VALID") window.before = window.after = std::vector<int64_t>(dims, 0);
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER")
    set_same_border(node, automatic == "SAME_UPPER", borders, window);
  return window;
}

Table convolution_attributes(const NodeImport& node, const ImportedWindow& window) {
  const std::vector<int64_t> none(window.before.size(), 0);
  return {{"stride", Value(window.stride)},
          {"padding", Value(window.is_symmetric() ? window.before : none)},
          {"dilation", Value(window.dilation)},
          {"groups", node.integer("group", 1)}};
}

NodeInput spatial_borders(const std::vector<int64_t>& before, const std::vector<int64_t>& after) {
  std::vector<int64_t> borders = {0, 0};
  borders.insert(borders.end(), before.begin(), before.end());
  borders.insert(borders.end(), {0, 0});
  borders.insert(borders.end(), after.begin(), after.end());
  return NodeImport::list_of(borders);
}

NodeInput cut(NodeImport& node, ImportedWindow& window, NodeInput input) {
  if (!window.cuts()) return input;
  const auto taken = [](std::vector<int64_t>& border) {
    std::vector<int64_t> cuts = border;
    for (int64_t& size : cuts) size = std::min<int64_t>(size, 0);
    for (int64_t& size : border) size = std::max<int64_t>(size, 0);
    return cuts;
  };
  const NodeInput borders = spatial_borders(taken(window.before), taken(window.after));
  return node.add("dynamic_pad", {std::move(input), borders});
}

NodeInput with_border(NodeImport& node, ImportedWindow window, NodeInput input, double value) {
  input = cut(node, window, std::move(input));
  if (!window.has_border()) return input;
  if (value == 0) {
    std::vector<int64_t> pad;
    for (size_t i = window.before.size(); i-- > 0;) {
      pad.push_back(window.before[i]);
      pad.push_back(window.after[i]);
    }
    // 0 is the value of a code: what was rounded still is.
    const Node* giver = input.is_constant() ? nullptr : &node.node(input);
    const bool is_rounding = giver != nullptr && giver->op == "identity";
    const Quantizer* quantizer = is_rounding ? giver->find_quantizer("data_out_0") : nullptr;
    const bool has_zero = quantizer != nullptr && integer_codes(quantizer->spec.format);
    const auto spec = has_zero ? std::optional(quantizer->spec) : std::nullopt;
    const NodeInput padded = node.add("pad", {std::move(input)}, {{"pad", Value(pad)}});
    return spec ? node.add_rounding(padded, *spec) : padded;
  }
  return node.add("dynamic_pad", {std::move(input), spatial_borders(window.before, window.after),
                                  NodeImport::number_of(value)});
}

/// (count - 1) stride + (kernel - 1) dilation + 1 - size of each dimension, where count is ceil(size /
/// stride).
NodeInput with_computed_border(NodeImport& node, const ImportedWindow& window, NodeInput input,
                               double value) {
  const size_t dims = window.kernel.size();
  std::vector<int64_t> spatial(dims);
  std::iota(spatial.begin(), spatial.end(), 2);
  std::vector<int64_t> less_one;
  std::vector<int64_t> reach;
  for (size_t i = 0; i < dims; ++i) {
    less_one.push_back(window.stride[i] - 1);
    reach.push_back((window.kernel[i] - 1) * window.dilation[i] + 1 - window.stride[i]);
  }
  const auto list = [&](const std::vector<int64_t>& values) {
    return node.constant_of(Tensor::from({std::ssize(values)}, values));
  };
  const NodeInput stride = list(window.stride);
  const NodeInput shape = node.add("shape_of", {input});
  const NodeInput size = node.add("gather", {shape, NodeImport::list_of(spatial)}, {{"dim", 0}});
  const NodeInput count = node.add("div", {node.add("add", {size, list(less_one)}), stride});
  const NodeInput span = node.add("add", {node.add("mul", {count, stride}), list(reach)});
  const NodeInput border = node.add("sub", {span, size});
  const bool upper = node.text("auto_pad", "NOTSET") == "SAME_UPPER";
  const std::vector<int64_t> odd(dims, upper ? 0 : 1);
  const NodeInput before =
      node.add("div", {node.add("add", {border, list(odd)}), list(std::vector<int64_t>(dims, 2))});
  const NodeInput after = node.add("sub", {border, before});
  const NodeInput borders = node.add("cat", {before, after}, {{"dim", 0}});
  return node.add("dynamic_pad",
                  {std::move(input), borders, NodeImport::number_of(value), NodeImport::list_of(spatial)});
}

}  // namespace detent

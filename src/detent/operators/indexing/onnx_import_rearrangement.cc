#include <numeric>

#include "detent/core/error.h"
#include "detent/operators/onnx_import.h"

namespace detent {
namespace {

int64_t counted_axis(const NodeImport& node, int64_t axis) {
  const auto rank = static_cast<int64_t>(node.rank(0));
  if (axis < -rank || axis >= rank) fail("axis {} of {} dimensions", axis, rank);
  return axis < 0 ? axis + rank : axis;
}

/// A list along one dimension of as many as input 0 has.
NodeInput along(NodeImport& node, NodeInput list, int64_t dim) {
  std::vector<int64_t> others;
  for (int64_t d = 0; d < static_cast<int64_t>(node.rank(0)); ++d)
    if (d != dim) others.push_back(d);
  return others.empty() ? list : node.add("unsqueeze", {std::move(list), NodeImport::list_of(others)});
}

/// The slices whose condition holds; of all elements where no axis is given.
void convert_compress(NodeImport& node) {
  const bool has_axis = node.has_attribute("axis");
  const int64_t axis = has_axis ? counted_axis(node, node.integer("axis", 0)) : 0;
  const NodeInput all = has_axis || node.rank(0) == 1
                            ? node.input(0)
                            : node.add("dynamic_reshape", {node.input(0), NodeImport::list_of({-1})});
  const NodeInput places = node.add("nonzero", {node.input(1)});
  const NodeInput list = node.add("squeeze", {places, NodeImport::list_of({0})});
  node.set_output(0, node.add("gather", {all, list}, {{"dim", axis}}));
}

/// The first elements of each sample, as many as input 1 says, in reverse.
void convert_reverse_sequence(NodeImport& node) {
  const int64_t batch = counted_axis(node, node.integer("batch_axis", 1));
  const int64_t time = counted_axis(node, node.integer("time_axis", 0));
  if (batch == time) fail("batch_axis and time_axis are both {}", batch);
  const NodeInput x = node.input(0);
  const NodeInput step = along(node, node.integers_below(node.size_of(x, time)), time);
  const NodeInput length = along(node, node.input(1), batch);
  const NodeInput last = node.add("sub", {length, NodeImport::integer_of(1)});
  const NodeInput mirrored = node.add("sub", {last, step});
  const NodeInput places = node.add("where", {node.add("lt", {step, length}), mirrored, step});
  const NodeInput everywhere = node.add("dynamic_expand", {places, node.add("shape_of", {x})});
  node.set_output(0, node.add("gather_elements", {x, everywhere}, {{"dim", time}}));
}

/// The middle of some dimensions, or these in the middle of zeros.
void convert_center_crop_pad(NodeImport& node) {
  std::vector<int64_t> axes(node.rank(0));
  std::iota(axes.begin(), axes.end(), 0);
  axes = node.integers("axes", axes);
  for (int64_t& axis : axes) axis = counted_axis(node, axis);
  const NodeInput x = node.input(0);
  const NodeInput dims = NodeImport::list_of(axes);
  NodeInput wanted = node.input(1);
  if (node.type(1).dtype != DType::kInt64) wanted = node.add("cast", {wanted}, {{"dtype", "int64"}});
  const NodeInput sizes = node.add("gather", {node.add("shape_of", {x}), dims}, {{"dim", 0}});
  const auto excess = [&](const NodeInput& larger, const NodeInput& smaller) {
    return node.add("maximum", {node.add("sub", {larger, smaller}), NodeImport::integer_of(0)});
  };
  const NodeInput start = node.add("div", {excess(sizes, wanted), NodeImport::integer_of(2)});
  const NodeInput end = node.add("add", {start, node.add("minimum", {sizes, wanted})});
  const std::vector<int64_t> ones(axes.size(), 1);
  const NodeInput middle = node.add("dynamic_slice", {x, start, end, dims, NodeImport::list_of(ones)});
  const NodeInput border = excess(wanted, sizes);
  const NodeInput before = node.add("div", {border, NodeImport::integer_of(2)});
  const NodeInput borders = node.add("cat", {before, node.add("sub", {border, before})}, {{"dim", 0}});
  node.set_output(0, node.add("dynamic_pad", {middle, borders, NodeInput::absent(), dims}));
}

/// The shape that a max pooling with the node's windows would have had as its input.
Shape unpooled_shape(const NodeImport& node) {
  Shape shape = node.shape(0);
  const std::vector<int64_t> kernel = node.integers("kernel_shape", {});
  const size_t dims = kernel.size();
  const std::vector<int64_t> strides = node.integers("strides", std::vector<int64_t>(dims, 1));
  const std::vector<int64_t> pads = node.integers("pads", std::vector<int64_t>(2 * dims, 0));
  if (shape.size() != dims + 2 || strides.size() != dims || pads.size() != 2 * dims)
    fail("kernel_shape, strides and pads of {}, {} and {} numbers for {} dimensions", dims, strides.size(),
         pads.size(), shape.size());
  for (size_t i = 0; i < dims; ++i)
    shape[i + 2] = (shape[i + 2] - 1) * strides[i] - pads[i] - pads[i + dims] + kernel[i];
  return shape;
}

/// Elements at the places that a max pooling took them from, zeros elsewhere. Where the size is given,
/// programs differ about what the places mean, unless it is the one that follows from the windows.
void convert_max_unpool(NodeImport& node) {
  const Shape shape = unpooled_shape(node);
  if (node.has_input(2) && node.integers(2) != shape)
    node.refuse(fmt::format("an output_shape that is not {}", shape_text(shape)));
  const auto flat = [&](size_t input) {
    return node.add("dynamic_reshape", {node.input(input), NodeImport::list_of({-1})});
  };
  const NodeInput zeros = node.add("full", {NodeImport::list_of({element_count(shape)})});
  const NodeInput filled = node.add("scatter_elements", {zeros, flat(1), flat(0)}, {{"dim", 0}});
  node.set_output(0, node.add("dynamic_reshape", {filled, NodeImport::list_of(shape)}));
}

/// Where windows of an image lie, all of whose sizes are known.
struct WindowPlaces {
  Shape image;
  Shape window;
  std::vector<int64_t> stride;
  std::vector<int64_t> dilation;
  std::vector<int64_t> before;
  Shape counts;  // of windows along each dimension

  /// For each position of a window and each window the place of its element in the image; after the last
  /// place for those that lie in the border.
  Tensor places() const {
    const int64_t positions = element_count(window);
    const int64_t windows = element_count(counts);
    Tensor result(DType::kInt64, {positions * windows, 1});
    for (int64_t i = 0; i < result.numel(); ++i)
      result.values<int64_t>()[static_cast<size_t>(i)] = place(i / windows, i % windows);
    return result;
  }

 private:
  int64_t place(int64_t position, int64_t at) const {
    int64_t result = 0;
    int64_t stride_of_dim = 1;
    for (size_t d = image.size(); d-- > 0; stride_of_dim *= image[d]) {
      const int64_t row = at % counts[d] * stride[d] + position % window[d] * dilation[d] - before[d];
      if (row < 0 || row >= image[d]) return element_count(image);
      result += row * stride_of_dim;
      at /= counts[d];
      position /= window[d];
    }
    return result;
  }
};

std::vector<int64_t> known_list(NodeImport& node, size_t input, const char* what) {
  const auto list = node.integers(input);
  if (!list) node.refuse(fmt::format("input {}, {}, is not constant", input, what));
  return *list;
}

WindowPlaces window_places(NodeImport& node) {
  const std::vector<int64_t> image = known_list(node, 1, "the size of the image");
  const std::vector<int64_t> window = known_list(node, 2, "the size of the windows");
  const size_t dims = image.size();
  const std::vector<int64_t> pads = node.integers("pads", std::vector<int64_t>(2 * dims, 0));
  WindowPlaces result{.image = image,
                      .window = window,
                      .stride = node.integers("strides", std::vector<int64_t>(dims, 1)),
                      .dilation = node.integers("dilations", std::vector<int64_t>(dims, 1)),
                      .before = pads,
                      .counts = {}};
  const bool fits = dims > 0 && window.size() == dims && pads.size() == 2 * dims &&
                    result.stride.size() == dims && result.dilation.size() == dims;
  if (!fits) fail("sizes of {} and {} dimensions, with other lists of other lengths", dims, window.size());
  constexpr int64_t kMost = int64_t{1} << 24;
  for (size_t d = 0; d < dims; ++d) {
    for (const int64_t size : {image[d], window[d], result.stride[d], result.dilation[d]})
      if (size < 1 || size > kMost) fail("a size of {}, expected 1 to {}", size, kMost);
    for (const int64_t border : {pads[d], pads[d + dims]})
      if (border < 0 || border > kMost) fail("a border of {}, expected 0 to {}", border, kMost);
    const int64_t reach = result.dilation[d] * (window[d] - 1) + 1;
    const int64_t count = (image[d] + pads[d] + pads[d + dims] - reach) / result.stride[d] + 1;
    if (image[d] + pads[d] + pads[d + dims] < reach) fail("windows of {} that do not fit", reach);
    result.counts.push_back(count);
  }
  return result;
}

/// The image whose windows are columns: [N, C * positions of a window, windows] as [N, C, ...], what lies in
/// several windows added up in the order of their positions.
void convert_columns_to_image(NodeImport& node) {
  const WindowPlaces windows = window_places(node);
  const int64_t positions = element_count(windows.window);
  const int64_t pixels = element_count(windows.image);
  const auto rows = node.size(0, 1);
  constexpr int64_t kMostPlaces = int64_t{1} << 22;
  if (node.rank(0) != 3 || !rows || *rows % positions != 0)
    fail("an input of shape {}, expected [N, C * {}, windows]", shape_text(node.type(0).shape), positions);
  if (node.size(0, 2) && *node.size(0, 2) != element_count(windows.counts))
    fail("{} windows, expected {}", *node.size(0, 2), element_count(windows.counts));
  if (positions * element_count(windows.counts) > kMostPlaces)
    node.refuse(fmt::format("more than {} elements of windows", kMostPlaces));
  const auto list = [](const std::vector<int64_t>& values) { return NodeImport::list_of(values); };
  const int64_t channels = *rows / positions;
  NodeInput x = node.add("dynamic_reshape", {node.input(0), list({0, channels, -1})});
  x = node.add("permute", {x}, {{"dims", Value(std::vector<int64_t>{2, 0, 1})}});
  const NodeInput batch = node.size_of(x, 1);
  const auto size = [&](int64_t value) {
    return node.constant_of(Tensor::from<int64_t>({1}, std::vector{value}));
  };
  const NodeInput sizes = node.add("cat", {size(pixels + 1), batch, size(channels)}, {{"dim", 0}});
  const NodeInput zeros = node.add("full", {sizes});
  NodeInput image =
      node.add("scatter_nd", {zeros, node.constant_of(windows.places()), x}, {{"reduction", "add"}});
  image = node.add("dynamic_slice", {image, list({0}), list({pixels}), list({0}), list({1})});
  image = node.add("permute", {image}, {{"dims", Value(std::vector<int64_t>{1, 2, 0})}});
  std::vector<int64_t> shape = {0, 0};
  shape.insert(shape.end(), windows.image.begin(), windows.image.end());
  node.set_output(0, node.add("dynamic_reshape", {image, list(shape)}));
}

}  // namespace

OnnxConverterList rearrangement_converters() {
  return {{"Compress", convert_compress},
          {"ReverseSequence", convert_reverse_sequence},
          {"CenterCropPad", convert_center_crop_pad},
          {"MaxUnpool", convert_max_unpool},
          {"Col2Im", convert_columns_to_image}};
}

}  // namespace detent

#include <array>
#include <string>

#include "detent/core/error.h"
#include "detent/operators/onnx_import.h"

namespace detent {
namespace {

/// One pixel in one dimension for each place, and its share.
struct Tap {
  NodeInput place;  // int64
  NodeInput share;
};

NodeInput as_type(NodeImport& node, const NodeInput& x, const char* dtype) {
  return node.add("cast", {x}, {{"dtype", dtype}});
}

/// A place among so many pixels as one that is there, with a share of 0 where it was not.
Tap tap_at(NodeImport& node, const NodeInput& whole, const NodeInput& place, const NodeInput& share) {
  const NodeInput size = as_type(node, whole, "float32");
  const NodeInput is_there = node.add(
      "logical_and", {node.add("ge", {place, NodeImport::number_of(0)}), node.add("lt", {place, size})});
  NodeInput index = node.add("maximum", {as_type(node, place, "int64"), NodeImport::integer_of(0)});
  index = node.add("minimum", {index, node.add("sub", {whole, NodeImport::integer_of(1)})});
  return {index, node.add("mul", {share, as_type(node, is_there, "float32")})};
}

/// The pixels before and after a place in one dimension.
std::vector<Tap> taps_of(NodeImport& node, const NodeInput& size, const NodeInput& place) {
  const NodeInput first = node.add("floor", {place});
  const NodeInput after = node.add("sub", {place, first});
  const NodeInput before =
      node.add("add", {node.add("mul", {after, NodeImport::number_of(-1)}), NodeImport::number_of(1)});
  return {tap_at(node, size, first, before),
          tap_at(node, size, node.add("add", {first, NodeImport::number_of(1)}), after)};
}

/// The sum of pixels of the image [N, C, pixels] at each choice of a tap for each dimension.
NodeInput sum_of_taps(NodeImport& node, const NodeInput& width, const NodeInput& pixels,
                      const NodeInput& channels, const std::vector<Tap>& rows,
                      const std::vector<Tap>& columns) {
  NodeInput sum = NodeInput::absent();
  for (const Tap& column : columns) {
    for (const Tap& row : rows) {
      const NodeInput place = node.add("add", {node.add("mul", {row.place, width}), column.place});
      const NodeInput share = node.add("mul", {row.share, column.share});
      const NodeInput index =
          node.add("add", {node.add("unsqueeze", {place, NodeImport::list_of({1})}), channels});
      NodeInput part = node.add("gather_elements", {pixels, index}, {{"dim", 2}});
      part = node.add("mul", {part, node.add("unsqueeze", {share, NodeImport::list_of({1})})});
      sum = sum.is_absent() ? part : node.add("add", {sum, part});
    }
  }
  return sum;
}

/// An image at the places that a grid gives for each pixel of the result, from -1 to 1, the last dimension of
/// the image first.
void convert_grid_sample(NodeImport& node) {
  std::string mode = node.text("mode", "linear");
  if (mode == "bilinear") mode = "linear";
  if (mode == "bicubic") mode = "cubic";
  if (mode != "linear" && mode != "cubic" && mode != "nearest")
    fail("mode is \"{}\", expected linear, nearest or cubic", mode);
  const std::string padding = node.text("padding_mode", "zeros");
  if (padding != "zeros" && padding != "border" && padding != "reflection")
    fail("padding_mode is \"{}\", expected zeros, border or reflection", padding);
  node.set_output(0, node.add("grid_sample", {node.input(0), node.input(1)},
                              {{"mode", mode},
                               {"padding_mode", padding},
                               {"align_corners", node.integer("align_corners", 0) != 0}}));
}

/// A list of attributes of two dimensions.
std::array<int64_t, 2> pair_of(const NodeImport& node, const char* name, int64_t otherwise) {
  constexpr int64_t kMost = int64_t{1} << 20;
  const std::vector<int64_t> given = node.integers(name, {otherwise, otherwise});
  if (given.size() != 2 || given[0] < 1 || given[1] < 1 || given[0] > kMost || given[1] > kMost)
    node.refuse(fmt::format("{} of other than two dimensions", name));
  return {given[0], given[1]};
}

/// A convolution of two dimensions whose windows read pixels at places of their own.
struct Deformed {
  std::array<int64_t, 2> kernel;
  std::array<int64_t, 2> output;
  int64_t offset_groups = 1;
  int64_t groups = 1;
  int64_t channels = 0;
  int64_t outputs = 0;

  int64_t taps() const { return kernel[0] * kernel[1]; }
};

Deformed deformed(const NodeImport& node) {
  for (const size_t i : {size_t{0}, size_t{1}, size_t{2}})
    if (node.rank(i) != 4) node.refuse(fmt::format("an input of {} dimensions", node.rank(i)));
  const Shape weight = node.shape(1);
  Deformed conv;
  conv.kernel = {weight[2], weight[3]};
  conv.offset_groups = node.integer("offset_group", 1);
  conv.groups = node.integer("group", 1);
  conv.outputs = weight[0];
  for (const size_t d : {size_t{0}, size_t{1}}) {
    const auto size = node.size(2, static_cast<int64_t>(d) + 2);
    if (!size) node.refuse("open sizes of the offsets");
    conv.output[d] = *size;
  }
  const auto channels = node.size(0, 1);
  conv.channels = channels.value_or(0);
  const bool fits = conv.offset_groups >= 1 && conv.groups >= 1 && conv.channels >= 1 && conv.taps() >= 1 &&
                    conv.channels % conv.offset_groups == 0 && conv.channels % conv.groups == 0 &&
                    conv.outputs % conv.groups == 0 && weight[1] == conv.channels / conv.groups &&
                    node.size(2, 1) == 2 * conv.offset_groups * conv.taps();
  if (!fits)
    fail("an image of {}, a weight of {} and offsets of {} with {} groups, {} of offsets",
         shape_text(node.type(0).shape), shape_text(weight), shape_text(node.type(2).shape), conv.groups,
         conv.offset_groups);
  return conv;
}

/// Where the windows would read in one dimension: [taps, height, width], of which two are 1.
Tensor plain_places(const NodeImport& node, const Deformed& conv, size_t dim) {
  const std::array<int64_t, 2> stride = pair_of(node, "strides", 1);
  const std::array<int64_t, 2> dilation = pair_of(node, "dilations", 1);
  const std::vector<int64_t> pads = node.integers("pads", {0, 0, 0, 0});
  if (pads.size() != 4) node.refuse("pads of other than two dimensions");
  Shape shape = {conv.taps(), 1, 1};
  shape[dim + 1] = conv.output[dim];
  Tensor places(DType::kFloat32, shape);
  size_t at = 0;
  for (int64_t tap = 0; tap < conv.taps(); ++tap) {
    const int64_t along = dim == 0 ? tap / conv.kernel[1] : tap % conv.kernel[1];
    for (int64_t i = 0; i < conv.output[dim]; ++i)
      places.values<float>()[at++] = static_cast<float>(i * stride[dim] - pads[dim] + along * dilation[dim]);
  }
  return places;
}

/// The pixels that all windows read: [batch * offset groups, channels of one, taps * pixels].
NodeInput deformed_columns(NodeImport& node, const Deformed& conv) {
  const std::array<NodeInput, 2> sizes = {node.size_of(node.input(0), 2), node.size_of(node.input(0), 3)};
  const int64_t channels = conv.channels / conv.offset_groups;
  const NodeInput pixels =
      node.add("dynamic_reshape", {node.input(0), NodeImport::list_of({-1, channels, 0, 0})});
  const NodeInput flat = node.add("flatten", {pixels}, {{"start_dim", 2}, {"end_dim", 3}});
  const NodeInput offsets =
      node.add("dynamic_reshape",
               {node.input(2), NodeImport::list_of({-1, conv.taps(), 2, conv.output[0], conv.output[1]})});
  std::array<std::vector<Tap>, 2> taps;
  for (size_t d = 0; d < 2; ++d) {
    const NodeInput moved = node.add("select", {offsets}, {{"dim", 2}, {"index", static_cast<int64_t>(d)}});
    const NodeInput places = node.add("add", {moved, node.constant_of(plain_places(node, conv, d))});
    taps[d] = taps_of(node, sizes[d], node.add("flatten", {places}, {{"start_dim", 1}, {"end_dim", 3}}));
  }
  const NodeInput spread = node.constant_of(Tensor(DType::kInt64, {channels, 1}));
  const NodeInput columns = sum_of_taps(node, sizes[1], flat, spread, taps[0], taps[1]);
  if (!node.has_input(4)) return columns;
  const int64_t all = conv.taps() * conv.output[0] * conv.output[1];
  return node.add("mul",
                  {columns, node.add("dynamic_reshape", {node.input(4), NodeImport::list_of({-1, 1, all})})});
}

void convert_deformable_convolution(NodeImport& node) {
  const Deformed conv = deformed(node);
  const int64_t pixels = conv.output[0] * conv.output[1];
  const int64_t rows = conv.channels / conv.groups * conv.taps();
  const NodeInput columns =
      node.add("dynamic_reshape",
               {deformed_columns(node, conv), NodeImport::list_of({-1, conv.groups, rows, pixels})});
  const NodeInput weight =
      node.add("dynamic_reshape",
               {node.input(1), NodeImport::list_of({conv.groups, conv.outputs / conv.groups, rows})});
  const NodeInput sums = node.add("matmul", {weight, columns});
  NodeInput result = node.add(
      "dynamic_reshape", {sums, NodeImport::list_of({-1, conv.outputs, conv.output[0], conv.output[1]})});
  if (node.has_input(3))
    result = node.add("add", {result, node.add("unsqueeze", {node.input(3), NodeImport::list_of({1, 2})})});
  node.set_output(0, result);
}

}  // namespace

OnnxConverterList sampling_converters() {
  return {{"GridSample", convert_grid_sample}, {"DeformConv", convert_deformable_convolution}};
}

}  // namespace detent

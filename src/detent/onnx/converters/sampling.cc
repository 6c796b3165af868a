#include <array>
#include <string>

#include "detent/core/error.h"
#include "detent/onnx/converters/converters.h"

namespace detent {
namespace {

// Values of images between their pixels, at places that are computed: gathered pixels times their shares.

enum class Beyond { kZeros, kBorder, kReflection };

/// How an image is read at places, and its sizes.
struct Sampling {
  std::string mode;
  Beyond beyond = Beyond::kZeros;
  bool from_centres = false;          // the ends are the centres of the last pixels
  std::vector<NodeInput> sizes = {};  // of the spatial dimensions, as integers: lists of one
};

/// One pixel in one dimension for each place, and its share.
struct Tap {
  NodeInput place;  // int64
  NodeInput share;  // absent where it is 1
};

NodeInput plus(NodeImport& node, const NodeInput& x, double number) {
  return node.add("add", {x, NodeImport::number_of(number)});
}

NodeInput times(NodeImport& node, const NodeInput& x, double number) {
  return node.add("mul", {x, NodeImport::number_of(number)});
}

NodeInput as_type(NodeImport& node, const NodeInput& x, const char* dtype) {
  return node.add("cast", {x}, {{"dtype", dtype}});
}

/// The ends that reflect: half a pixel beyond the last ones' centres, or there.
struct Ends {
  NodeInput low;
  NodeInput length;
};

Ends ends_of(NodeImport& node, const Sampling& sampling, const NodeInput& size) {
  if (sampling.from_centres) {
    // A length of 1/2 for one pixel, so that whole numbers come to 0.
    const NodeInput length = node.add("maximum", {plus(node, size, -1), NodeImport::number_of(0.5)});
    return {NodeImport::number_of(0), length};
  }
  return {NodeImport::number_of(-0.5), size};
}

/// Back and forth between the ends.
NodeInput reflected(NodeImport& node, const NodeInput& x, const Ends& ends) {
  const NodeInput period = times(node, ends.length, 2);
  const NodeInput along = node.add("remainder", {node.add("sub", {x, ends.low}), period});
  const NodeInput back = node.add("sub", {period, along});
  return node.add("add", {node.add("minimum", {along, back}), ends.low});
}

/// A place among pixels as one that is there, and whether it was.
Tap tap_at(NodeImport& node, const Sampling& sampling, size_t dim, NodeInput place, NodeInput share) {
  const NodeInput& whole = sampling.sizes[dim];
  const NodeInput size = as_type(node, whole, "float32");
  if (sampling.beyond == Beyond::kReflection) place = reflected(node, place, ends_of(node, sampling, size));
  if (sampling.beyond == Beyond::kZeros) {
    const NodeInput is_there = node.add(
        "logical_and", {node.add("ge", {place, NodeImport::number_of(0)}), node.add("lt", {place, size})});
    const NodeInput one = as_type(node, is_there, "float32");
    share = share.is_absent() ? one : node.add("mul", {share, one});
  }
  const NodeInput zero = NodeImport::integer_of(0);
  NodeInput index = node.add("maximum", {as_type(node, place, "int64"), zero});
  index = node.add("minimum", {index, node.add("sub", {whole, NodeImport::integer_of(1)})});
  return {index, share};
}

/// The shares of four pixels at a distance after the second one: cubic convolution with a = -0.75.
std::vector<NodeInput> cubic_shares(NodeImport& node, const NodeInput& behind) {
  constexpr double kA = -0.75;
  const auto far = [&](const NodeInput& t) {
    NodeInput x = plus(node, times(node, t, kA), -5 * kA);
    x = plus(node, node.add("mul", {x, t}), 8 * kA);
    return plus(node, node.add("mul", {x, t}), -4 * kA);
  };
  const auto near = [&](const NodeInput& t) {
    const NodeInput x = node.add("mul", {plus(node, times(node, t, kA + 2), -(kA + 3)), t});
    return plus(node, node.add("mul", {x, t}), 1);
  };
  const NodeInput before = plus(node, times(node, behind, -1), 1);
  return {far(plus(node, behind, 1)), near(behind), near(before), far(plus(node, before, 1))};
}

/// The pixels that a place in one dimension is made of.
std::vector<Tap> taps_of(NodeImport& node, const Sampling& sampling, size_t dim, const NodeInput& place) {
  if (sampling.mode == "nearest")
    return {tap_at(node, sampling, dim, node.add("round", {place}), NodeInput::absent())};
  const NodeInput first = node.add("floor", {place});
  const NodeInput behind = node.add("sub", {place, first});
  std::vector<Tap> taps;
  if (sampling.mode == "linear") {
    const NodeInput before = plus(node, times(node, behind, -1), 1);
    taps.push_back(tap_at(node, sampling, dim, first, before));
    taps.push_back(tap_at(node, sampling, dim, plus(node, first, 1), behind));
    return taps;
  }
  const std::vector<NodeInput> shares = cubic_shares(node, behind);
  for (size_t i = 0; i < shares.size(); ++i)
    taps.push_back(tap_at(node, sampling, dim, plus(node, first, static_cast<double>(i) - 1), shares[i]));
  return taps;
}

/// The sum of pixels of the image [N, C, pixels] at each choice of a tap for each dimension.
NodeInput sum_of_taps(NodeImport& node, const Sampling& sampling, const NodeInput& pixels,
                      const NodeInput& channels, const std::vector<std::vector<Tap>>& taps) {
  size_t choices = 1;
  for (const auto& of_dim : taps) choices *= of_dim.size();
  NodeInput sum = NodeInput::absent();
  for (size_t choice = 0; choice < choices; ++choice) {
    NodeInput place = NodeInput::absent();
    NodeInput share = NodeInput::absent();
    size_t rest = choice;
    for (size_t d = 0; d < taps.size(); ++d) {
      const Tap& tap = taps[d][rest % taps[d].size()];
      rest /= taps[d].size();
      place = place.is_absent() ? tap.place
                                : node.add("add", {node.add("mul", {place, sampling.sizes[d]}), tap.place});
      if (!tap.share.is_absent()) share = share.is_absent() ? tap.share : node.add("mul", {share, tap.share});
    }
    const NodeInput index =
        node.add("add", {node.add("unsqueeze", {place, NodeImport::list_of({1})}), channels});
    NodeInput part = node.add("gather_elements", {pixels, index}, {{"dim", 2}});
    if (!share.is_absent())
      part = node.add("mul", {part, node.add("unsqueeze", {share, NodeImport::list_of({1})})});
    sum = sum.is_absent() ? part : node.add("add", {sum, part});
  }
  return sum;
}

Sampling sampling_of(NodeImport& node, size_t dims) {
  Sampling sampling;
  sampling.mode = node.text("mode", node.opset() < 20 ? "bilinear" : "linear");
  if (sampling.mode == "bilinear") sampling.mode = "linear";
  if (sampling.mode == "bicubic") sampling.mode = "cubic";
  if (sampling.mode != "linear" && sampling.mode != "cubic" && sampling.mode != "nearest")
    fail("mode is \"{}\", expected linear, nearest or cubic", sampling.mode);
  const std::string padding = node.text("padding_mode", "zeros");
  if (padding != "zeros" && padding != "border" && padding != "reflection")
    fail("padding_mode is \"{}\", expected zeros, border or reflection", padding);
  sampling.beyond = padding == "zeros"    ? Beyond::kZeros
                    : padding == "border" ? Beyond::kBorder
                                          : Beyond::kReflection;
  sampling.from_centres = node.integer("align_corners", 0) != 0;
  if (sampling.mode == "cubic" && dims != 2)
    node.refuse(fmt::format("cubic sampling of {} dimensions", dims));
  for (size_t d = 0; d < dims; ++d)
    sampling.sizes.push_back(node.size_of(node.input(0), static_cast<int64_t>(d) + 2));
  return sampling;
}

/// Numbers from -1 to 1 as places among pixels.
NodeInput place_of_share(NodeImport& node, const Sampling& sampling, size_t dim, const NodeInput& share) {
  const NodeInput size = as_type(node, sampling.sizes[dim], "float32");
  const NodeInput raised = plus(node, share, 1);
  NodeInput place;
  if (sampling.from_centres) {
    place = times(node, node.add("mul", {raised, plus(node, size, -1)}), 0.5);
  } else {
    place = times(node, plus(node, node.add("mul", {raised, size}), -1), 0.5);
  }
  if (sampling.beyond == Beyond::kZeros) return place;
  // Cubic curves go on beyond the border: only the pixels that they read are those of the border.
  if (sampling.beyond == Beyond::kBorder && sampling.mode == "cubic") return place;
  if (sampling.mode == "nearest") place = node.add("round", {place});
  if (sampling.beyond == Beyond::kReflection) return reflected(node, place, ends_of(node, sampling, size));
  place = node.add("maximum", {place, NodeImport::number_of(0)});
  return node.add("minimum", {place, plus(node, size, -1)});
}

/// An image at the places that a grid gives for each pixel of the result, from -1 to 1, the last dimension of
/// the image first.
void convert_grid_sample(NodeImport& node) {
  const size_t rank = node.rank(0);
  if (rank < 3 || rank > 5 || node.rank(1) != rank || node.size(1, -1) != static_cast<int64_t>(rank) - 2)
    fail("an image of shape {} and a grid of shape {}", shape_text(node.type(0).shape),
         shape_text(node.type(1).shape));
  const size_t dims = rank - 2;
  const Sampling sampling = sampling_of(node, dims);
  const auto channels = node.size(0, 1);
  if (!channels) node.refuse("an open number of channels");
  const NodeInput pixels = node.add("flatten", {node.input(0)}, {{"start_dim", 2}, {"end_dim", -1}});
  const NodeInput rows =
      node.add("flatten", {node.input(1)}, {{"start_dim", 1}, {"end_dim", static_cast<int64_t>(dims)}});
  std::vector<std::vector<Tap>> taps;
  for (size_t d = 0; d < dims; ++d) {
    const NodeInput share =
        node.add("select", {rows}, {{"dim", -1}, {"index", static_cast<int64_t>(dims - 1 - d)}});
    taps.push_back(taps_of(node, sampling, d, place_of_share(node, sampling, d, share)));
  }
  const NodeInput spread = node.constant_of(Tensor(DType::kInt64, {*channels, 1}));
  const NodeInput sum = sum_of_taps(node, sampling, pixels, spread, taps);
  const NodeInput shape = node.add(
      "cat",
      {node.add("shape_of", {node.input(0)}, {{"start", 0}, {"end", 2}}),
       node.add("shape_of", {node.input(1)}, {{"start", 1}, {"end", static_cast<int64_t>(dims) + 1}})},
      {{"dim", 0}});
  node.set_output(0, node.add("dynamic_reshape", {sum, shape}));
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
  const Sampling sampling = {.mode = "linear",
                             .sizes = {node.size_of(node.input(0), 2), node.size_of(node.input(0), 3)}};
  const int64_t channels = conv.channels / conv.offset_groups;
  const NodeInput pixels =
      node.add("dynamic_reshape", {node.input(0), NodeImport::list_of({-1, channels, 0, 0})});
  const NodeInput flat = node.add("flatten", {pixels}, {{"start_dim", 2}, {"end_dim", 3}});
  const NodeInput offsets =
      node.add("dynamic_reshape",
               {node.input(2), NodeImport::list_of({-1, conv.taps(), 2, conv.output[0], conv.output[1]})});
  std::vector<std::vector<Tap>> taps;
  for (size_t d = 0; d < 2; ++d) {
    const NodeInput moved = node.add("select", {offsets}, {{"dim", 2}, {"index", static_cast<int64_t>(d)}});
    const NodeInput places = node.add("add", {moved, node.constant_of(plain_places(node, conv, d))});
    const NodeInput row = node.add("flatten", {places}, {{"start_dim", 1}, {"end_dim", 3}});
    taps.push_back(taps_of(node, sampling, d, row));
  }
  const NodeInput spread = node.constant_of(Tensor(DType::kInt64, {channels, 1}));
  const NodeInput columns = sum_of_taps(node, sampling, flat, spread, taps);
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

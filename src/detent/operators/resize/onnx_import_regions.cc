#include <algorithm>

#include "detent/core/error.h"
#include "detent/operators/onnx_import.h"

namespace detent {
namespace {

/// Two pixels in one dimension for each place, and their shares, which are 0 outside of the image.
struct PixelPair {
  NodeInput places[2];  // int64 [regions, places]
  NodeInput shares[2];
};

NodeInput column_of(NodeImport& node, int64_t column) {
  const NodeInput numbers = node.add("select", {node.input(1)}, {{"dim", 1}, {"index", column}});
  return node.add("unsqueeze", {numbers, NodeImport::list_of({1})});
}

PixelPair pixels_at(NodeImport& node, const NodeInput& place, int64_t dim) {
  const auto number = [](double value) { return NodeImport::number_of(value); };
  const NodeInput whole = node.size_of(node.input(0), dim);
  const NodeInput size = node.add("cast", {whole}, {{"dtype", "float32"}});
  const NodeInput last = node.add("sub", {size, number(1)});
  const NodeInput is_there =
      node.add("logical_and", {node.add("ge", {place, number(-1)}), node.add("le", {place, size})});
  const NodeInput inside = node.add("minimum", {node.add("maximum", {place, number(0)}), last});
  const NodeInput low = node.add("floor", {inside});
  const NodeInput high = node.add("minimum", {node.add("add", {low, number(1)}), last});
  const NodeInput after = node.add("sub", {inside, low});
  const NodeInput there = node.add("cast", {is_there}, {{"dtype", "float32"}});
  PixelPair pair;
  const NodeInput zero = NodeImport::integer_of(0);
  const NodeInput places[] = {low, high};
  const NodeInput shares[] = {node.add("sub", {number(1), after}), after};
  for (size_t i = 0; i < 2; ++i) {
    const NodeInput index = node.add("cast", {places[i]}, {{"dtype", "int64"}});
    const NodeInput least = node.add("maximum", {index, zero});
    pair.places[i] = node.add("minimum", {least, node.add("sub", {whole, NodeImport::integer_of(1)})});
    pair.shares[i] = node.add("mul", {shares[i], there});
  }
  return pair;
}

/// Four pixels for each place, [channels, regions, height, width], each times its share: their sum.
NodeInput region_samples(NodeImport& node, const PixelPair& rows, const PixelPair& columns) {
  const NodeInput first =
      node.add("permute", {node.input(0)}, {{"dims", Value(std::vector<int64_t>{1, 0, 2, 3})}});
  const NodeInput pixels = node.add("flatten", {first}, {{"start_dim", 1}, {"end_dim", 3}});
  NodeInput image = node.input(2);
  if (node.type(2).dtype != DType::kInt64) image = node.add("cast", {image}, {{"dtype", "int64"}});
  image = node.add("unsqueeze", {image, NodeImport::list_of({1})});
  const NodeInput height = node.size_of(node.input(0), 2);
  const NodeInput width = node.size_of(node.input(0), 3);
  NodeInput result = NodeInput::absent();
  for (size_t y = 0; y < 2; ++y) {
    const NodeInput line = node.add("add", {node.add("mul", {image, height}), rows.places[y]});
    const NodeInput start = node.add("unsqueeze", {node.add("mul", {line, width}), NodeImport::list_of({2})});
    const NodeInput share = node.add("unsqueeze", {rows.shares[y], NodeImport::list_of({2})});
    for (size_t x = 0; x < 2; ++x) {
      const auto row = [&](const NodeInput& of_columns) {
        return node.add("unsqueeze", {of_columns, NodeImport::list_of({1})});
      };
      const NodeInput places = node.add("add", {start, row(columns.places[x])});
      NodeInput part = node.add("gather", {pixels, places}, {{"dim", 1}});
      part = node.add("mul", {part, node.add("mul", {share, row(columns.shares[x])})});
      result = result.is_absent() ? part : node.add("add", {result, part});
    }
  }
  return result;
}

/// Regions of images, each in as many bins, of the mean or the largest of places in them.
void convert_region_alignment(NodeImport& node) {
  constexpr int64_t kHasHalfPixel = 16;
  const std::string places = node.text("coordinate_transformation_mode",
                                       node.opset() >= kHasHalfPixel ? "half_pixel" : "output_half_pixel");
  const std::string mode = node.text("mode", "avg");
  if (places != "half_pixel" && places != "output_half_pixel")
    fail("coordinate_transformation_mode is \"{}\", expected half_pixel or output_half_pixel", places);
  if (mode != "avg" && mode != "max") fail("mode is \"{}\", expected avg or max", mode);
  NodeInput which = node.input(2);
  if (node.type(2).dtype != DType::kInt64) which = node.add("cast", {which}, {{"dtype", "int64"}});
  node.set_output(0, node.add("roi_align", {node.input(0), node.input(1), which},
                              {{"output_size", Value(std::vector<int64_t>{node.integer("output_height", 1),
                                                                          node.integer("output_width", 1)})},
                               {"sampling_ratio", node.integer("sampling_ratio", 0)},
                               {"spatial_scale", node.number("spatial_scale", 1)},
                               {"half_pixel", places == "half_pixel"},
                               {"reduction", mode == "avg" ? "mean" : "max"}}));
}

/// So many places of each region from its first to its last pixel, or its middle, and whether they are in the
/// image.
struct CropPlaces {
  NodeInput places;      // [regions, count]
  NodeInput are_inside;  // the same, bool
};

CropPlaces crop_places(NodeImport& node, int64_t count, int64_t dim) {
  const auto number = [](double value) { return NodeImport::number_of(value); };
  const NodeInput size = node.add("cast", {node.size_of(node.input(0), dim)}, {{"dtype", "float32"}});
  const NodeInput last = node.add("sub", {size, number(1)});
  const NodeInput begin = node.add("mul", {column_of(node, dim - 2), last});
  const NodeInput end = node.add("mul", {column_of(node, dim), last});
  NodeInput places;
  if (count == 1) {
    places = node.add("mul", {node.add("add", {begin, end}), number(0.5)});
  } else {
    Tensor steps(DType::kFloat32, {count - 1});
    for (int64_t i = 0; float& step : steps.values<float>()) step = static_cast<float>(i++);
    const NodeInput step =
        node.add("div", {node.add("sub", {end, begin}), number(static_cast<double>(count - 1))});
    places = node.add("add", {begin, node.add("mul", {step, node.constant_of(steps)})});
    places = node.add("cat", {places, end}, {{"dim", 1}});
  }
  const NodeInput are_inside =
      node.add("logical_and", {node.add("ge", {places, number(0)}), node.add("le", {places, last})});
  if (node.text("mode", "bilinear") == "nearest")
    places = node.add("floor", {node.add("add", {places, number(0.5)})});
  return {places, are_inside};
}

/// Regions of images, each of as many pixels; what lies outside of the image is one number.
void convert_crops(NodeImport& node) {
  constexpr int64_t kMostPixels = 1 << 12;
  const auto size = node.integers(3);
  const std::string mode = node.text("mode", "bilinear");
  if (!size) node.refuse("a crop_size that is not known before the network runs");
  if (size->size() != 2 || std::ranges::any_of(*size, [](int64_t s) { return s < 1 || s > kMostPixels; }))
    fail("crop_size {}, expected two numbers of 1 to {}", shape_text(*size), kMostPixels);
  if (mode != "bilinear" && mode != "nearest") fail("mode is \"{}\", expected bilinear or nearest", mode);
  if (node.rank(0) != 4 || node.rank(1) != 2 || node.size(1, 1) != 4 || node.rank(2) != 1)
    fail("images of shape {} and regions of shape {}, expected [N, C, H, W] and [R, 4]",
         shape_text(node.type(0).shape), shape_text(node.type(1).shape));
  const CropPlaces rows = crop_places(node, (*size)[0], 2);
  const CropPlaces columns = crop_places(node, (*size)[1], 3);
  NodeInput result =
      region_samples(node, pixels_at(node, rows.places, 2), pixels_at(node, columns.places, 3));
  result = node.add("permute", {result}, {{"dims", Value(std::vector<int64_t>{1, 0, 2, 3})}});
  const NodeInput is_inside =
      node.add("logical_and", {node.add("unsqueeze", {rows.are_inside, NodeImport::list_of({1, 3})}),
                               node.add("unsqueeze", {columns.are_inside, NodeImport::list_of({1, 2})})});
  const NodeInput beyond = NodeImport::number_of(node.number("extrapolation_value", 0));
  node.set_output(0, node.add("where", {is_inside, result, beyond}));
}

/// Elements of matrices [..., n, n], each read once.
class MatrixElements {
 public:
  explicit MatrixElements(NodeImport& node) : node_(node) {}

  NodeInput at(int64_t row, int64_t column) {
    const NodeInput line = node_.add("select", {node_.input(0)}, {{"dim", -2}, {"index", row}});
    return node_.add("select", {line}, {{"dim", -1}, {"index", column}});
  }
  /// The determinant of the rows from one on and of these columns, by its first row.
  NodeInput determinant(int64_t row, const std::vector<int64_t>& columns) {
    NodeInput sum = NodeInput::absent();
    for (size_t i = 0; i < columns.size(); ++i) {
      NodeInput term = at(row, columns[i]);
      if (columns.size() > 1) {
        std::vector<int64_t> others = columns;
        others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
        term = node_.add("mul", {term, determinant(row + 1, others)});
      }
      sum = sum.is_absent() ? term : node_.add(i % 2 == 0 ? "add" : "sub", {sum, term});
    }
    return sum;
  }

 private:
  NodeImport& node_;
};

void convert_determinant(NodeImport& node) {
  constexpr int64_t kMost = 4;
  const size_t rank = node.rank(0);
  const auto size = rank < 2 ? std::nullopt : node.size(0, -1);
  if (!size || node.size(0, -2) != size)
    fail("matrices of shape {}, expected squares", shape_text(node.type(0).shape));
  if (*size < 1 || *size > kMost) node.refuse(fmt::format("a matrix of {} rows", *size));
  std::vector<int64_t> columns;
  for (int64_t c = 0; c < *size; ++c) columns.push_back(c);
  node.set_output(0, MatrixElements(node).determinant(0, columns));
}

}  // namespace

OnnxConverterList region_converters() {
  return {{"RoiAlign", convert_region_alignment}, {"Det", convert_determinant}};
}

OnnxConverterList crop_converters() { return {{"CropAndResize", convert_crops}}; }

}  // namespace detent

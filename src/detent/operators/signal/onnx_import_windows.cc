#include <numbers>

#include "detent/core/error.h"
#include "detent/onnx/tensor_data.h"
#include "detent/operators/layers/onnx_import.h"
#include "detent/operators/onnx_import.h"

namespace detent {
namespace {

NodeInput cast_to(NodeImport& node, NodeInput x, DType dtype) {
  return node.add("cast", {std::move(x)}, {{"dtype", std::string(dtype_name(dtype))}});
}

NodeInput floats_below(NodeImport& node, NodeInput count) {
  return cast_to(node, node.integers_below(std::move(count)), DType::kFloat32);
}

/// first - second cos(2 pi n / N) + third cos(4 pi n / N), where N is the size, or one less where the window
/// is not periodic.
void give_cosine_window(NodeImport& node, double first, double second, double third) {
  NodeInput size = node.input(0);
  if (node.type(0).dtype != DType::kInt64) size = cast_to(node, std::move(size), DType::kInt64);
  const NodeInput places = floats_below(node, size);
  NodeInput period = cast_to(node, size, DType::kFloat32);
  if (node.integer("periodic", 1) == 0) period = node.add("sub", {period, NodeImport::number_of(1)});
  const auto wave = [&](double turns, double height) {
    const double turn = 2 * std::numbers::pi * turns;
    const NodeInput angles = node.add("mul", {places, NodeImport::number_of(turn)});
    const NodeInput cosine = node.add("cos", {node.add("div", {angles, period})});
    return node.add("mul", {cosine, NodeImport::number_of(height)});
  };
  NodeInput result = node.add("add", {wave(1, -second), NodeImport::number_of(first)});
  if (third != 0) result = node.add("add", {result, wave(2, third)});
  give_floats(node, result, dtype_of_onnx(node.integer("output_datatype", 1)));
}

void convert_hann_window(NodeImport& node) { give_cosine_window(node, 0.5, 0.5, 0); }

void convert_hamming_window(NodeImport& node) {
  constexpr double kFirst = 25.0 / 46;
  give_cosine_window(node, kFirst, 1 - kFirst, 0);
}

void convert_blackman_window(NodeImport& node) { give_cosine_window(node, 0.42, 0.5, 0.08); }

/// Ones on a diagonal of a matrix as large as the input.
void convert_eye_like(NodeImport& node) {
  if (node.rank(0) != 2) fail("an input of {} dimensions, expected a matrix", node.rank(0));
  const DType given = node.float_type(0);
  const DType dtype = node.has_attribute("dtype") ? dtype_of_onnx(node.integer("dtype", 0)) : given;
  const DType kept = is_floating_point(dtype) ? DType::kFloat32 : dtype;
  const NodeInput shape = node.add("shape_of", {node.input(0)});
  const NodeInput ones = node.add("full", {shape}, {{"value", 1}, {"dtype", "float32"}});
  const NodeInput diagonal = NodeImport::integer_of(node.integer("k", 0));
  const NodeInput above = node.add("trilu", {ones, diagonal}, {{"upper", true}});
  NodeInput result = node.add("trilu", {above, diagonal}, {{"upper", false}});
  if (kept != DType::kFloat32) result = cast_to(node, result, kept);
  node.set_output(0, result);
  node.set_float_type(0, dtype);
}

/// Positions of the pixels of one dimension between -1 and 1: of their centres, from edge to edge or from
/// centre to centre.
NodeInput pixel_positions(NodeImport& node, int64_t dim, bool from_centres) {
  const NodeInput size = node.add("gather", {node.input(1), NodeImport::list_of({dim + 2})}, {{"dim", 0}});
  const NodeInput count = cast_to(node, size, DType::kFloat32);
  const NodeInput twice = node.add("mul", {floats_below(node, size), NodeImport::number_of(2)});
  const NodeInput shift = NodeImport::number_of(from_centres ? 0 : 1);
  const NodeInput parts = from_centres ? node.add("sub", {count, NodeImport::number_of(1)}) : count;
  const NodeInput shares = node.add("div", {node.add("add", {twice, shift}), parts});
  return node.add("sub", {shares, NodeImport::number_of(1)});
}

/// theta (x, y, 1) for each pixel of an image, or theta (x, y, z, 1): [N, H, W, 2] or [N, D, H, W, 3].
void convert_affine_grid(NodeImport& node) {
  const int64_t dims = node.size(0, 2).value_or(0) - 1;
  if (node.rank(0) != 3 || dims < 2 || dims > 3)
    fail("an input of {} dimensions, expected [N, 2, 3] or [N, 3, 4]", node.rank(0));
  std::vector<int64_t> spatial;
  for (int64_t d = 1; d <= dims; ++d) spatial.push_back(d);
  const auto column_of_theta = [&](int64_t column) {
    const NodeInput part = node.add("select", {node.input(0)}, {{"dim", 2}, {"index", column}});
    return node.add("unsqueeze", {part, NodeImport::list_of(spatial)});
  };
  const bool from_centres = node.integer("align_corners", 0) != 0;
  NodeInput result = column_of_theta(dims);
  for (int64_t column = 0; column < dims; ++column) {
    const int64_t dim = dims - 1 - column;  // x is the last dimension
    std::vector<int64_t> others = {0, dims + 1};
    for (const int64_t d : spatial)
      if (d != dim + 1) others.push_back(d);
    const NodeInput positions = pixel_positions(node, dim, from_centres);
    const NodeInput spread = node.add("unsqueeze", {positions, NodeImport::list_of(others)});
    result = node.add("add", {result, node.add("mul", {column_of_theta(column), spread})});
  }
  node.set_output(0, result);
}

}  // namespace

void give_floats(NodeImport& node, NodeInput result, DType dtype) {
  if (!is_floating_point(dtype)) result = cast_to(node, std::move(result), dtype);
  node.set_output(0, std::move(result));
  node.set_float_type(0, dtype);
}

OnnxConverterList generator_converters() {
  return {{"HannWindow", convert_hann_window},
          {"HammingWindow", convert_hamming_window},
          {"BlackmanWindow", convert_blackman_window},
          {"EyeLike", convert_eye_like},
          {"AffineGrid", convert_affine_grid}};
}

}  // namespace detent

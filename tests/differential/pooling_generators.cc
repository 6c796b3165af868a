#include <algorithm>
#include <cmath>
#include <numeric>

#include "case.h"

namespace detent {
namespace {

constexpr double kMost = 0x1p16;

GeneratedValue image(GraphWriter& writer, int64_t dims, bool may_be_wild) {
  Random& random = writer.random;
  Shape shape = {random.between(1, 2), random.between(1, 3)};
  for (int64_t i = 0; i < dims; ++i) shape.push_back(random.between(1, 6));
  Wanted wanted{.dtypes = {writer.real}, .shape = shape, .may_be_wild = may_be_wild, .most_magnitude = kMost};
  if (random.chance(0.4)) {
    wanted.shape.reset();
    wanted.least_rank = wanted.most_rank = dims + 2;
    wanted.may_be_empty = false;
  }
  return writer.operand(wanted);
}

/// One dimension of a pooling node.
struct Extent {
  int64_t kernel;
  int64_t stride;
  int64_t dilation;
  int64_t before;
  int64_t after;
};

/// How many windows there are; with ceil_mode a last one that begins after the input and its border before
/// is none.
int64_t windows(const Extent& extent, int64_t size, bool ceils) {
  const int64_t span = (extent.kernel - 1) * extent.dilation + 1;
  const int64_t rest = size + extent.before + extent.after - span;
  int64_t count = rest / extent.stride + 1;
  if (ceils && rest % extent.stride != 0 && count * extent.stride < size + extent.before) ++count;
  return count;
}

void write_pool(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const bool is_max = op == "MaxPool";
  const GeneratedValue x = image(writer, random.of<int64_t>({1, 2, 2, 3}), is_max);
  const auto dims = x.shape.size() - 2;
  const bool dilates = random.chance(0.3) &&
                       ((is_max && writer.is_at_least(10)) || (op == "LpPool" && writer.is_at_least(18)) ||
                        (op == "AveragePool" && writer.is_at_least(19)));
  const bool ceils =
      random.chance(0.35) && (op == "LpPool" ? writer.is_at_least(18) : writer.is_at_least(10));
  const std::string automatic =
      random.chance(0.25) ? random.of({"SAME_UPPER", "SAME_LOWER", "VALID"}) : "NOTSET";
  Shape kernel;
  Shape stride;
  Shape dilation;
  Shape before;
  Shape after;
  Shape shape = {x.shape[0], x.shape[1]};
  double count = 1;
  for (size_t i = 0; i < dims; ++i) {
    const int64_t size = x.shape[i + 2];
    Extent extent{random.between(1, 3), random.between(1, 3), dilates ? random.between(1, 2) : 1, 0, 0};
    extent.kernel = std::min(extent.kernel, size);
    if ((extent.kernel - 1) * extent.dilation + 1 > size) extent.dilation = 1;
    const bool exceeds = ceils && !automatic.starts_with("SAME") && random.chance(0.2);
    if (exceeds) {  // only its beginning is in the input
      extent.kernel = size + random.between(1, 3);
      extent.dilation = 1;
      extent.stride = extent.kernel + random.between(0, 1);
    } else if (automatic == "NOTSET") {
      extent.before = random.between(0, extent.kernel - 1);
      extent.after = random.chance(0.5) ? extent.before : random.between(0, extent.kernel - 1);
    }
    if (automatic.starts_with("SAME")) {
      const int64_t wanted = (size + extent.stride - 1) / extent.stride;
      const int64_t border = std::max<int64_t>(
          (wanted - 1) * extent.stride + (extent.kernel - 1) * extent.dilation + 1 - size, 0);
      extent.before = automatic == "SAME_UPPER" ? border / 2 : border - border / 2;
      extent.after = border - extent.before;
    }
    shape.push_back(windows(extent, size, ceils && !automatic.starts_with("SAME")));
    kernel.push_back(extent.kernel);
    stride.push_back(extent.stride);
    dilation.push_back(extent.dilation);
    before.push_back(extent.before);
    after.push_back(extent.after);
    count *= static_cast<double>(extent.kernel);
  }
  std::vector<OnnxAttribute> attributes = {{"kernel_shape", kernel}, {"strides", stride}};
  if (automatic != "NOTSET") {
    attributes.emplace_back("auto_pad", automatic.c_str());
  } else {
    before.insert(before.end(), after.begin(), after.end());
    attributes.emplace_back("pads", before);
  }
  if (dilates) attributes.emplace_back("dilations", dilation);
  if (ceils) attributes.emplace_back("ceil_mode", 1);
  Numbers numbers = x.numbers;
  std::vector<Result> results = {{x.dtype, shape, numbers}};
  if (is_max && writer.is_at_least(8) && random.chance(0.25) && x.numbers.is_exact()) {
    if (random.chance(0.5)) attributes.emplace_back("storage_order", random.between(0, 1));
    results.push_back({DType::kInt64, shape, {1024, 1}});
  }
  if (op == "AveragePool" && random.chance(0.5))
    attributes.emplace_back("count_include_pad", random.between(0, 1));
  if (op == "LpPool" && random.chance(0.6)) attributes.emplace_back("p", random.between(1, 3));
  if (!is_max)
    results[0].numbers = function_of(x.numbers, op == "LpPool" ? count : 1,
                                     x.numbers.magnitude * (op == "LpPool" ? count : 1));
  // A root is steep at 0.
  if (op == "LpPool" && !x.numbers.is_exact()) results[0].numbers.error += std::pow(x.numbers.error, 1.0 / 3);
  writer.node(op, {x}, attributes, results);
}

void write_global(GraphWriter& writer, const std::string& op) {
  const GeneratedValue x = image(writer, writer.random.between(1, 3), op == "GlobalMaxPool");
  Shape shape = x.shape;
  std::fill(shape.begin() + 2, shape.end(), 1);
  const Numbers numbers = op == "GlobalMaxPool" ? x.numbers : function_of(x.numbers, 1, x.numbers.magnitude);
  writer.node(op, {x}, {}, {x.dtype, shape, numbers});
}

/// Sizes that follow from scales are whole, so that they are no matter of rounding.
void write_resize(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const std::string mode = random.of({"nearest", "nearest", "linear", "cubic"});
  const GeneratedValue x = image(writer, mode == "cubic" ? 2 : random.of<int64_t>({1, 2, 2}), false);
  const auto rank = x.shape.size();
  std::vector<OnnxAttribute> attributes = {{"mode", mode.c_str()}};
  Shape shape = x.shape;
  std::vector<float> scales(rank, 1);
  for (size_t i = 2; i < rank; ++i) {
    const int64_t factor = random.between(1, 3);
    const bool shrinks = x.shape[i] % factor == 0 && random.chance(0.4);
    scales[i] = shrinks ? 1.0F / static_cast<float>(factor) : static_cast<float>(factor);
    shape[i] = shrinks ? x.shape[i] / factor : x.shape[i] * factor;
    if (factor == 3 && shrinks) scales[i] = 1, shape[i] = x.shape[i];
  }
  const Numbers numbers = mode == "nearest" ? x.numbers : function_of(x.numbers, 3, 3 * x.numbers.magnitude);
  const Tensor factors = Tensor::from({static_cast<int64_t>(rank)}, scales);
  if (!writer.is_at_least(11)) {
    attributes[0] = {"mode", mode == "nearest" ? "nearest" : "linear"};
    writer.node(op, {x, writer.constant(factors, {4, 0.125})}, attributes,
                {x.dtype, shape, function_of(numbers, 1, numbers.magnitude)});
    return;
  }
  if (random.chance(0.7))
    attributes.emplace_back("coordinate_transformation_mode",
                            random.of({"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"}));
  if (mode == "nearest" && random.chance(0.7))
    attributes.emplace_back("nearest_mode",
                            random.of({"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}));
  if (mode == "cubic" && random.chance(0.5)) attributes.emplace_back("cubic_coeff_a", -0.5F);
  if (mode == "cubic" && random.chance(0.4)) attributes.emplace_back("exclude_outside", 1);
  std::vector<GeneratedValue> inputs = {x, GraphWriter::absent(), GraphWriter::absent(),
                                        GraphWriter::absent()};
  if (writer.opset < 13) inputs[1] = writer.constant(Tensor(DType::kFloat32, {0}), {0, 1});
  if (random.chance(0.6)) {
    inputs[2] = writer.constant(factors, {4, 0.125});
  } else {
    for (size_t i = 2; i < rank; ++i) shape[i] = random.between(1, 6);
    if (writer.opset < 13) inputs[2] = writer.constant(Tensor(DType::kFloat32, {0}), {0, 1});
    inputs[3] = writer.list(shape);
  }
  writer.node(op, inputs, attributes, {x.dtype, shape, numbers});
}

void write_upsample(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const GeneratedValue x = image(writer, 2, false);
  std::vector<float> scales = {1, 1, static_cast<float>(random.between(1, 3)),
                               static_cast<float>(random.between(1, 3))};
  const Shape shape = {x.shape[0], x.shape[1], x.shape[2] * static_cast<int64_t>(scales[2]),
                       x.shape[3] * static_cast<int64_t>(scales[3])};
  std::vector<OnnxAttribute> attributes = {{"mode", random.of({"nearest", "linear"})}};
  const Numbers numbers = function_of(x.numbers, 1, x.numbers.magnitude);
  if (writer.is_at_least(9)) {
    writer.node(op, {x, writer.constant(Tensor::from({4}, scales), {4, 1})}, attributes,
                {x.dtype, shape, numbers});
  } else {
    attributes.emplace_back("scales", scales);
    writer.node(op, {x}, attributes, {x.dtype, shape, numbers});
  }
}

/// Positions that are multiples of 1/8, some beyond the border.
void write_grid_sample(GraphWriter& writer, const std::string& op) {
  constexpr int64_t kVolumes = 20;  // modes have other names then
  writer.real = DType::kFloat32;
  Random& random = writer.random;
  const GeneratedValue x = writer.operand(
      {.dtypes = {writer.real},
       .shape = Shape{random.between(1, 2), random.between(1, 2), random.between(1, 4), random.between(1, 4)},
       .must_be_exact = true,
       .most_magnitude = 64});
  const Shape places = {x.shape[0], random.between(1, 3), random.between(1, 3), 2};
  Tensor grid(DType::kFloat32, places);
  for (float& place : grid.values<float>()) place = static_cast<float>(random.between(-12, 12)) / 8;
  const bool is_new = writer.is_at_least(kVolumes);
  const std::string mode =
      random.of<std::string>({is_new ? "linear" : "bilinear", "nearest", is_new ? "cubic" : "bicubic"});
  const std::string border = random.of<std::string>({"zeros", "border", "reflection"});
  // Shares of a cubic curve: at most 11/8 in sum of magnitudes in each dimension.
  const Numbers numbers{2 * x.numbers.magnitude, 0, 64 * Numbers::kUnit * x.numbers.magnitude};
  writer.node(
      op, {x, writer.input_of(grid, {1.5, 0.125})},
      {{"mode", mode.c_str()}, {"padding_mode", border.c_str()}, {"align_corners", random.of({0, 1})}},
      {x.dtype, {x.shape[0], x.shape[1], places[1], places[2]}, numbers});
}

/// Regions of corners that are multiples of 1/8, some beyond the border or of negative size.
void write_region_alignment(GraphWriter& writer, const std::string& op) {
  writer.real = DType::kFloat32;
  Random& random = writer.random;
  const GeneratedValue x = writer.operand(
      {.dtypes = {writer.real},
       .shape = Shape{random.between(1, 2), random.between(1, 3), random.between(1, 6), random.between(1, 6)},
       .must_be_exact = true,
       .most_magnitude = 64});
  const int64_t count = random.between(1, 3);
  Tensor regions(DType::kFloat32, {count, 4});
  for (float& corner : regions.values<float>()) corner = static_cast<float>(random.between(-16, 72)) / 8;
  std::vector<int64_t> which;
  for (int64_t i = 0; i < count; ++i) which.push_back(random.between(0, x.shape[0] - 1));
  const int64_t rows = random.between(1, 3);
  const int64_t columns = random.between(1, 3);
  std::vector<OnnxAttribute> attributes = {
      {"output_height", rows}, {"output_width", columns}, {"spatial_scale", random.of({1.0F, 0.5F, 0.25F})}};
  if (random.chance(0.6)) attributes.emplace_back("sampling_ratio", random.between(0, 3));
  if (writer.is_at_least(16) && random.chance(0.7)) {
    attributes.emplace_back("coordinate_transformation_mode", random.of({"half_pixel", "output_half_pixel"}));
  }
  if (random.chance(0.3)) attributes.emplace_back("mode", random.of({"avg", "max"}));
  const Numbers numbers{x.numbers.magnitude, 0, 64 * Numbers::kUnit * x.numbers.magnitude};
  writer.node(
      op, {x, writer.input_of(regions, {9, 0.125}), writer.constant(Tensor::from({count}, which), {2, 1})},
      attributes, {x.dtype, {count, x.shape[1], rows, columns}, numbers});
}

}  // namespace

std::vector<OperatorGenerator> pooling_generators() {
  return {{"MaxPool", 7, write_pool},
          {"MaxPool", 7, write_pool},
          {"AveragePool", 7, write_pool},
          {"AveragePool", 7, write_pool},
          {"LpPool", 7, write_pool},
          {"GlobalAveragePool", 7, write_global},
          {"GlobalMaxPool", 7, write_global},
          {"Resize", 10, write_resize},
          {"Resize", 10, write_resize},
          {"Upsample", 7, write_upsample, 9},
          {"GridSample", 16, write_grid_sample},
          {"RoiAlign", 10, write_region_alignment}};
}

}  // namespace detent

#include <algorithm>
#include <limits>
#include <numeric>

#include "case.h"

namespace detent {
namespace {

Wanted any_data(GraphWriter& writer, int64_t least_rank) {
  std::vector<DType> dtypes = {writer.real};
  if (writer.random.chance(0.4))
    dtypes = {DType::kInt64, DType::kInt32, DType::kBool, DType::kUInt8, DType::kInt8};
  return {.dtypes = dtypes, .least_rank = least_rank, .may_be_wild = true};
}

int64_t element_count_of(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

/// A tensor of given integers: a constant, or an input.
GeneratedValue given(GraphWriter& writer, const Shape& shape, const std::vector<int64_t>& values,
                     DType dtype) {
  const GeneratedValue flat = writer.list(values, dtype);
  if (shape.size() == 1) return flat;
  return writer.node(
      "Reshape", {flat, writer.constant(Tensor::from({std::ssize(shape)}, std::span<const int64_t>(shape)))},
      {}, Result{dtype, shape, {8, 1}});
}

/// Without a node that reshapes, mostly.
GeneratedValue indices(GraphWriter& writer, const Shape& shape, int64_t size) {
  Random& random = writer.random;
  std::vector<int64_t> values(static_cast<size_t>(element_count_of(shape)));
  for (int64_t& value : values) value = random.between(writer.is_at_least(11) ? -size : 0, size - 1);
  const DType dtype = random.of({DType::kInt64, DType::kInt32});
  if (random.chance(0.3) || shape.empty()) {
    if (shape.empty()) return writer.scalar(values[0], dtype);
    return given(writer, shape, values, dtype);
  }
  Tensor tensor(dtype, shape);
  if (dtype == DType::kInt64) std::ranges::copy(values, tensor.values<int64_t>().begin());
  if (dtype == DType::kInt32)
    std::ranges::transform(values, tensor.values<int32_t>().begin(),
                           [](int64_t v) { return static_cast<int32_t>(v); });
  return random.chance(0.4) ? writer.input_of(tensor, {8, 1}) : writer.constant(tensor, {8, 1});
}

void write_gather(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  Wanted wanted = any_data(writer, 1);
  if (random.chance(0.3)) wanted.most_rank = 2;
  const GeneratedValue x = writer.operand(wanted);
  std::vector<OnnxAttribute> attributes;
  int64_t axis = 0;
  if (random.chance(0.7)) attributes.emplace_back("axis", axis = writer.axis(x.rank()));
  const auto dim = static_cast<size_t>(normal_axis(axis, x.rank()));
  Shape of_indices = writer.shape(0, 2, false);
  if (x.shape[dim] == 0) of_indices = {0};
  const GeneratedValue places = indices(writer, of_indices, x.shape[dim]);
  Shape shape(x.shape.begin(), x.shape.begin() + static_cast<int64_t>(dim));
  shape.insert(shape.end(), of_indices.begin(), of_indices.end());
  shape.insert(shape.end(), x.shape.begin() + static_cast<int64_t>(dim) + 1, x.shape.end());
  writer.node(op, {x, places}, attributes, {x.dtype, shape, x.numbers});
}

void write_gather_elements(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  Wanted wanted = any_data(writer, 1);
  wanted.may_be_empty = false;
  const GeneratedValue x = writer.operand(wanted);
  std::vector<OnnxAttribute> attributes;
  int64_t axis = 0;
  if (random.chance(0.7)) attributes.emplace_back("axis", axis = writer.axis(x.rank()));
  const auto dim = static_cast<size_t>(normal_axis(axis, x.rank()));
  Shape shape = x.shape;
  for (int64_t& size : shape) size = random.between(1, size);
  shape[dim] = random.between(1, 4);
  writer.node(op, {x, indices(writer, shape, x.shape[dim])}, attributes, {x.dtype, shape, x.numbers});
}

void write_gather_nd(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  Wanted wanted = any_data(writer, 1);
  wanted.may_be_empty = false;
  const GeneratedValue x = writer.operand(wanted);
  const int64_t batch = writer.is_at_least(12) && random.chance(0.4) ? random.between(0, x.rank() - 1) : 0;
  const int64_t length = random.between(1, x.rank() - batch);
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int64_t i = batch; i < batch + length; ++i) least = std::min(least, x.shape[static_cast<size_t>(i)]);
  Shape of_indices(x.shape.begin(), x.shape.begin() + batch);
  if (random.chance(0.7) || of_indices.empty()) of_indices.push_back(random.between(1, 3));
  Shape shape = of_indices;
  shape.insert(shape.end(), x.shape.begin() + batch + length, x.shape.end());
  of_indices.push_back(length);
  std::vector<int64_t> values(static_cast<size_t>(element_count_of(of_indices)));
  for (int64_t& value : values) value = random.between(-least, least - 1);
  const Tensor tensor = Tensor::from(of_indices, values);
  const GeneratedValue places =
      random.chance(0.4) ? writer.input_of(tensor, {8, 1}) : writer.constant(tensor, {8, 1});
  std::vector<OnnxAttribute> attributes;
  if (batch > 0) attributes.emplace_back("batch_dims", batch);
  writer.node(op, {x, places}, attributes, {x.dtype, shape, x.numbers});
}

/// How what comes to an element that has several is combined; the order does not show in exact numbers.
std::string reduction(GraphWriter& writer, const GeneratedValue& x) {
  if (!writer.is_at_least(16) || x.dtype == DType::kBool) return "none";
  return writer.is_at_least(18) ? writer.random.of({"none", "add", "mul", "max", "min"})
                                : writer.random.of({"none", "add", "mul"});
}

Numbers scattered(const std::string& how, const GeneratedValue& x, const GeneratedValue& updates) {
  if (how == "add") return sum(x.numbers, sum_of(updates.numbers, 8));
  if (how == "mul")
    return function_of({product(x.numbers, product(updates.numbers, updates.numbers))}, 0, 0x1p10);
  return either(x.numbers, updates.numbers);
}

void write_scatter_elements(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const GeneratedValue x = writer.operand({.dtypes = {writer.real, writer.real, DType::kInt64, DType::kInt32},
                                           .least_rank = 1,
                                           .may_be_empty = false});
  std::vector<OnnxAttribute> attributes;
  int64_t axis = 0;
  if (random.chance(0.7)) attributes.emplace_back("axis", axis = writer.axis(x.rank()));
  const auto dim = static_cast<size_t>(normal_axis(axis, x.rank()));
  Shape shape = x.shape;
  for (int64_t& size : shape) size = random.between(1, size);
  const std::string how = op == "Scatter" ? "none" : reduction(writer, x);
  if (how != "none") attributes.emplace_back("reduction", how.c_str());
  // Without a reduction each element is written once: which of two comes last is open.
  if (how == "none") shape[dim] = 1;
  const GeneratedValue places = indices(writer, shape, x.shape[dim]);
  const GeneratedValue updates = writer.source(x.dtype, shape);
  writer.node(op, {x, places, updates}, attributes, {x.dtype, x.shape, scattered(how, x, updates)});
}

void write_scatter_nd(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const GeneratedValue x = writer.operand({.dtypes = {writer.real, writer.real, DType::kInt64, DType::kInt32},
                                           .least_rank = 1,
                                           .may_be_empty = false});
  const int64_t length = random.between(1, x.rank());
  const std::string how = reduction(writer, x);
  const int64_t count = how == "none" ? 1 : random.between(1, 3);
  std::vector<int64_t> values;
  for (int64_t i = 0; i < count * length; ++i) {
    const int64_t size = x.shape[static_cast<size_t>(i % length)];
    values.push_back(random.between(-size, size - 1));
  }
  Shape shape = {count};
  shape.insert(shape.end(), x.shape.begin() + length, x.shape.end());
  const Tensor tensor = Tensor::from({count, length}, values);
  const GeneratedValue places =
      random.chance(0.4) ? writer.input_of(tensor, {8, 1}) : writer.constant(tensor, {8, 1});
  const GeneratedValue updates = writer.source(x.dtype, shape);
  std::vector<OnnxAttribute> attributes;
  if (how != "none") attributes.emplace_back("reduction", how.c_str());
  writer.node(op, {x, places, updates}, attributes, {x.dtype, x.shape, scattered(how, x, updates)});
}

void write_one_hot(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const GeneratedValue x = writer.operand({.dtypes = {DType::kInt64}, .least_rank = 1, .most_rank = 3});
  const int64_t depth = random.between(1, 5);
  const DType dtype = random.of({writer.real, DType::kInt64});
  const GeneratedValue values = writer.source(dtype, {2});
  std::vector<OnnxAttribute> attributes;
  int64_t axis = -1;
  if (random.chance(0.6)) attributes.emplace_back("axis", axis = random.between(-x.rank() - 1, x.rank()));
  Shape shape = x.shape;
  shape.insert(shape.begin() + normal_axis(axis, x.rank() + 1), depth);
  const GeneratedValue size = random.chance(0.5) ? writer.scalar(depth) : writer.list({depth});
  writer.node(op, {x, size, values}, attributes, {dtype, shape, values.numbers});
}

void write_non_zero(GraphWriter& writer, const std::string& op) {
  const GeneratedValue x =
      writer.operand({.dtypes = {writer.real, DType::kInt64, DType::kInt32, DType::kBool},
                      .least_rank = 1,
                      .must_be_exact = true});
  writer.node(op, {x}, {}, {DType::kInt64, {x.rank(), -1}, {8, 1}, false});
}

/// Takes all elements, or slices of an axis; results that nothing asks for are left out at the end.
void write_unique(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const GeneratedValue x = writer.operand({.dtypes = {DType::kFloat32, DType::kInt64, DType::kInt8},
                                           .least_rank = 1,
                                           .most_rank = 3,
                                           .must_be_exact = true,
                                           .may_be_empty = false});
  std::vector<OnnxAttribute> attributes;
  Shape shape = {-1};
  if (random.chance(0.6)) {
    const int64_t axis = writer.axis(x.rank());
    attributes.emplace_back("axis", axis);
    shape = x.shape;
    shape[static_cast<size_t>(normal_axis(axis, x.rank()))] = -1;
  }
  if (random.chance(0.6)) attributes.emplace_back("sorted", random.between(0, 1));
  std::vector<Result> results = {{x.dtype, shape, x.numbers, false},
                                 {DType::kInt64, {-1}, {64, 1}, false},
                                 {DType::kInt64, {-1}, {64, 1}, false},
                                 {DType::kInt64, {-1}, {64, 1}, false}};
  results.resize(static_cast<size_t>(random.between(1, 4)));
  writer.node(op, {x}, attributes, results);
}

/// Windows of two dimensions that overlap, with borders. Of one dimension ONNX Runtime leaves out channels.
void write_columns_to_image(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  constexpr int64_t kDims = 2;
  const int64_t channels = random.between(1, 3);
  Shape image;
  Shape window;
  std::vector<int64_t> strides;
  std::vector<int64_t> dilations;
  std::vector<int64_t> pads(static_cast<size_t>(2 * kDims));
  int64_t windows = 1;
  for (int64_t d = 0; d < kDims; ++d) {
    window.push_back(random.between(1, 3));
    strides.push_back(random.between(1, 2));
    dilations.push_back(random.between(1, 2));
    const int64_t before = pads[static_cast<size_t>(d)] = random.between(0, 1);
    const int64_t after = pads[static_cast<size_t>(d + kDims)] = random.between(0, 1);
    const int64_t reach = dilations.back() * (window.back() - 1) + 1;
    image.push_back(reach + random.between(0, 3));
    windows *= (image.back() + before + after - reach) / strides.back() + 1;
  }
  const int64_t positions = element_count(window);
  const GeneratedValue x =
      writer.operand({.dtypes = {DType::kFloat32},
                      .shape = Shape{random.between(1, 2), channels * positions, windows},
                      .must_be_exact = true,
                      .may_be_empty = false,
                      .most_magnitude = 256});
  Shape shape = {x.shape[0], channels};
  shape.insert(shape.end(), image.begin(), image.end());
  const auto sizes = [&](const Shape& list) {
    return writer.constant(Tensor::from({std::ssize(list)}, std::vector<int64_t>(list)));
  };
  writer.node(op, {x, sizes(image), sizes(window)},
              {{"strides", strides}, {"dilations", dilations}, {"pads", pads}},
              {x.dtype, shape, sum_of(x.numbers, static_cast<double>(positions))});
}

void write_trilu(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const GeneratedValue x =
      writer.operand({.dtypes = {writer.real, DType::kInt64}, .least_rank = 2, .may_be_wild = true});
  std::vector<OnnxAttribute> attributes;
  if (random.chance(0.7)) attributes.emplace_back("upper", random.between(0, 1));
  GeneratedValue k = GraphWriter::absent();
  if (random.chance(0.7))
    k = writer.scalar(random.chance(0.1) ? random.of<int64_t>({100, -100}) : random.between(-4, 4));
  writer.node(op, {x, k}, attributes, {x.dtype, x.shape, either(x.numbers, {0, 1})});
}

/// Boxes on a grid, whose overlaps are equal to no threshold.
void write_suppression(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const int64_t boxes = random.between(1, 5);
  const int64_t batch = random.between(1, 2);
  Tensor corners(DType::kFloat32, {batch, boxes, 4});
  const auto values = corners.values<float>();
  for (size_t i = 0; i < values.size(); i += 4) {
    for (size_t j = 0; j < 2; ++j) {
      values[i + j] = static_cast<float>(random.between(0, 4));
      values[i + j + 2] = values[i + j] + static_cast<float>(random.between(1, 4));
    }
  }
  const GeneratedValue all =
      random.chance(0.7) ? writer.input_of(corners, {8, 1}) : writer.constant(corners, {8, 1});
  const GeneratedValue scores = writer.source(DType::kFloat32, {batch, random.between(1, 2), boxes});
  std::vector<GeneratedValue> inputs = {all, scores, GraphWriter::absent(), GraphWriter::absent(),
                                        GraphWriter::absent()};
  if (random.chance(0.85))
    inputs[2] = random.chance(0.5)
                    ? writer.scalar(random.of<int64_t>({1, 2, 100, std::numeric_limits<int64_t>::max(), 0}))
                    : writer.list({random.of<int64_t>({1, 2, 100, std::numeric_limits<int64_t>::max()})});
  if (random.chance(0.6))
    inputs[3] =
        writer.constant(Tensor::from({1}, std::vector<float>{random.of({0.0F, 0.3F, 0.51F, 1.0F})}), {1, 0});
  if (random.chance(0.5))
    inputs[4] =
        writer.constant(Tensor::from({1}, std::vector<float>{random.of({0.05F, -1.05F, 1.55F})}), {2, 0});
  std::vector<OnnxAttribute> attributes;
  if (random.chance(0.5)) attributes.emplace_back("center_point_box", random.between(0, 1));
  writer.node(op, inputs, attributes, {DType::kInt64, {-1, 3}, {8, 1}, false});
}

}  // namespace

std::vector<OperatorGenerator> index_generators() {
  return {{"Gather", 7, write_gather},
          {"Gather", 7, write_gather},
          {"GatherElements", 11, write_gather_elements},
          {"GatherND", 11, write_gather_nd},
          {"Scatter", 9, write_scatter_elements, 10},
          {"ScatterElements", 11, write_scatter_elements},
          {"ScatterND", 11, write_scatter_nd},
          {"OneHot", 9, write_one_hot},
          {"NonZero", 9, write_non_zero},
          {"Unique", 11, write_unique},
          {"Col2Im", 18, write_columns_to_image},
          {"Trilu", 14, write_trilu},
          {"NonMaxSuppression", 10, write_suppression}};
}

}  // namespace detent

#include "case.h"

// Operators around networks: features in ai.onnx.ml, images of early models, rows in com.microsoft.

namespace detent {
namespace {

const char* const kFeatures = "ai.onnx.ml";
constexpr int64_t kLastOfEarly = 9;  // the last opset in which ONNX Runtime has experimental operators

std::vector<float> few_numbers(Random& random, int64_t count) {
  std::vector<float> numbers;
  for (int64_t i = 0; i < count; ++i) numbers.push_back(random.of({-2.0F, -0.5F, 0.0F, 0.25F, 1.0F, 3.0F}));
  return numbers;
}

Numbers of_few() { return {4, 0.25}; }

/// Exact float32 numbers of just this shape.
GeneratedValue exact_floats(GraphWriter& writer, const Shape& shape) {
  writer.real = DType::kFloat32;
  return writer.operand({.shape = shape, .must_be_exact = true, .may_be_empty = false, .most_magnitude = 64});
}

void write_categories(GraphWriter& writer, const std::string& op) {
  const GeneratedValue x = writer.operand({.dtypes = {DType::kInt64},
                                           .least_rank = 1,
                                           .most_rank = 3,
                                           .must_be_exact = true,
                                           .may_be_empty = false});
  std::vector<int64_t> categories;
  for (int64_t i = writer.random.between(1, 5); i > 0; --i) categories.push_back(2 * i - 5);
  Shape shape = x.shape;
  shape.push_back(std::ssize(categories));
  writer.node(op, {x}, {{"cats_int64s", categories}, {"zeros", 1}}, {DType::kFloat32, shape, {1, 1}},
              kFeatures);
}

void write_imputer(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const Shape shape = {random.between(1, 3), random.between(1, 4)};
  const GeneratedValue x = exact_floats(writer, shape);
  const int64_t count = random.chance(0.5) ? 1 : shape[1];
  writer.node(op, {x},
              {{"imputed_value_floats", few_numbers(random, count)},
               {"replaced_value_float", random.of({0.0F, 1.0F, 0.5F})}},
              {x.dtype, shape, either(x.numbers, of_few())}, kFeatures);
}

void write_linear_model(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const Shape shape = {random.between(1, 3), random.between(1, 4)};
  const GeneratedValue x = exact_floats(writer, shape);
  const bool has_labels = op == "LinearClassifier";
  // One score of two classes is a case of its own.
  const int64_t rows = random.between(has_labels ? 2 : 1, 4);
  std::vector<OnnxAttribute> attributes = {{"coefficients", few_numbers(random, rows * shape[1])},
                                           {"intercepts", few_numbers(random, rows)}};
  Numbers scores = sum(sum_of(product(x.numbers, of_few()), static_cast<double>(shape[1])), of_few());
  scores.is_positive = false;
  if (!has_labels) {
    attributes.emplace_back("targets", rows);
    writer.node(op, {x}, attributes, {x.dtype, {shape[0], rows}, scores}, kFeatures);
    return;
  }
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < rows; ++i) labels.push_back(3 * i - 4);
  attributes.emplace_back("classlabels_ints", labels);
  writer.node(op, {x}, attributes,
              {{DType::kInt64, {shape[0]}, {16, 1}}, {x.dtype, {shape[0], rows}, scores}}, kFeatures);
}

void write_vectorizer(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const int64_t rows = random.between(1, 3);
  std::vector<int64_t> columns;
  std::vector<GeneratedValue> inputs;
  Numbers numbers = {1, 1};
  for (int64_t i = random.between(1, 3); i > 0; --i) {
    columns.push_back(random.between(1, 3));
    inputs.push_back(exact_floats(writer, {rows, columns.back()}));
    numbers = either(numbers, inputs.back().numbers);
  }
  int64_t all = 0;
  for (const int64_t count : columns) all += count;
  writer.node(op, inputs, {{"inputdimensions", columns}}, {DType::kFloat32, {rows, all}, numbers}, kFeatures);
}

void write_image_scaler(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const Shape shape = {random.between(1, 2), random.between(1, 3), random.between(1, 4),
                       random.between(1, 4)};
  const GeneratedValue x = exact_floats(writer, shape);
  Numbers numbers = sum(product(x.numbers, {2, 0.5}), of_few());
  numbers.is_positive = false;
  writer.node(op, {x}, {{"scale", random.of({0.5F, 1.0F, 2.0F})}, {"bias", few_numbers(random, shape[1])}},
              {x.dtype, shape, numbers});
}

void write_crop(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const Shape shape = {random.between(1, 2), random.between(1, 3), random.between(3, 6),
                       random.between(3, 6)};
  const GeneratedValue x = exact_floats(writer, shape);
  const std::vector<int64_t> border = {random.between(0, 1), random.between(0, 1), random.between(0, 1),
                                       random.between(0, 1)};
  Shape result = {shape[0], shape[1], shape[2] - border[1] - border[3], shape[3] - border[0] - border[2]};
  std::vector<OnnxAttribute> attributes = {{"border", border}};
  if (random.chance(0.4)) {
    result[2] = random.between(1, 2);
    result[3] = random.between(1, 2);
    attributes.emplace_back("scale", std::vector<int64_t>{result[2], result[3]});
  }
  writer.node(op, {x}, attributes, {x.dtype, result, x.numbers});
}

/// alpha f(beta x)
void write_scaled_function(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const GeneratedValue x = writer.operand({.least_rank = 1, .may_be_empty = false, .most_magnitude = 64});
  const float alpha = random.of({0.5F, 1.0F, 2.0F});
  const float beta = random.of({-1.0F, 0.5F, 1.0F});
  writer.node(op, {x}, {{"alpha", alpha}, {"beta", beta}},
              {x.dtype, x.shape, function_of(x.numbers, 2, 4 + 2 * x.numbers.magnitude)});
}

void write_distances(GraphWriter& writer, const std::string& op) {
  Random& random = writer.random;
  const int64_t columns = random.between(1, 4);
  const Shape rows = {random.between(1, 4), random.between(1, 4)};
  const GeneratedValue a = exact_floats(writer, {rows[0], columns});
  const GeneratedValue b = exact_floats(writer, {rows[1], columns});
  const Numbers difference = sum(a.numbers, b.numbers);
  Numbers squares = sum_of(product(difference, difference), static_cast<double>(columns));
  squares.is_positive = false;
  writer.node(op, {a, b}, {{"metric", "sqeuclidean"}}, {a.dtype, {rows[0], rows[1]}, squares},
              "com.microsoft");
}

void write_expand_dims(GraphWriter& writer, const std::string& op) {
  const GeneratedValue x = writer.operand({.dtypes = {writer.real, DType::kInt64}, .most_rank = 3});
  const int64_t axis = writer.random.between(-x.rank() - 1, x.rank());
  Shape shape = x.shape;
  shape.insert(shape.begin() + normal_axis(axis, x.rank() + 1), 1);
  const GeneratedValue place =
      writer.constant(Tensor::from<int32_t>({}, std::vector<int32_t>{static_cast<int32_t>(axis)}));
  writer.node(op, {x, place}, {}, {x.dtype, shape, x.numbers}, "com.microsoft");
}

}  // namespace

std::vector<OperatorGenerator> feature_generators() {
  return {{"OneHotEncoder", 7, write_categories},
          {"Imputer", 7, write_imputer},
          {"LinearRegressor", 7, write_linear_model},
          {"LinearClassifier", 7, write_linear_model},
          {"FeatureVectorizer", 7, write_vectorizer},
          {"ImageScaler", 7, write_image_scaler, kLastOfEarly},
          {"Crop", 7, write_crop, kLastOfEarly},
          {"Affine", 7, write_scaled_function, kLastOfEarly},
          {"ScaledTanh", 7, write_scaled_function, kLastOfEarly},
          {"ParametricSoftplus", 7, write_scaled_function, kLastOfEarly},
          {"CDist", 13, write_distances},
          {"ExpandDims", 13, write_expand_dims}};
}

}  // namespace detent

#include <algorithm>
#include <numeric>

#include "detent/core/convert.h"
#include "detent/core/error.h"
#include "detent/operators/onnx_import.h"

namespace detent {
namespace {

// Support vector machines become a kernel of the input with each support vector, [N, vectors], and a linear
// layer over it.

constexpr int64_t kMostClasses = 4096;

Tensor floats_of(const NodeImport& node, const char* name) {
  const Tensor numbers = to_dtype(node.tensor(name), DType::kFloat32);
  return numbers.reshaped({numbers.numel()});
}

/// A layer of these weights, whose rows are `columns` long.
NodeInput layer_of(NodeImport& node, const NodeInput& x, const Tensor& weight, const Tensor* bias) {
  NodeImport::Parameters parameters = {{"weight", NodeImport::parameter(weight)}};
  if (bias != nullptr) parameters.emplace_back("bias", NodeImport::parameter(*bias));
  return node.add("linear", {x}, {}, std::move(parameters));
}

/// [N, features] of float32.
NodeInput machine_rows(NodeImport& node) {
  NodeInput x = node.input(0);
  if (node.type(0).dtype != DType::kFloat32) x = node.add("cast", {x}, {{"dtype", "float32"}});
  if (node.rank(0) == 1) x = node.add("unsqueeze", {x, NodeImport::list_of({0})});
  return x;
}

/// exp(-gamma |x - v|^2) for each support vector v.
NodeInput radial_kernel(NodeImport& node, const NodeInput& x, const Tensor& vectors, double gamma) {
  const NodeInput rows = node.add("unsqueeze", {x, NodeImport::list_of({1})});
  const NodeInput difference = node.add("sub", {rows, node.constant_of(vectors)});
  const NodeInput squares = node.add("mul", {difference, difference});
  const NodeInput distances = node.add("sum", {squares, NodeImport::list_of({-1})});
  return node.add("exp", {node.add("mul", {distances, NodeImport::number_of(-gamma)})});
}

/// [N, vectors]
NodeInput kernel_of(NodeImport& node, const NodeInput& x, const Tensor& vectors) {
  const std::string kind = node.text("kernel_type", "LINEAR");
  std::vector<double> numbers = node.numbers("kernel_params");
  if (numbers.empty()) numbers.resize(3);
  if (numbers.size() != 3) fail("{} kernel_params, expected gamma, coef0 and degree", numbers.size());
  if (kind == "RBF") return radial_kernel(node, x, vectors, numbers[0]);
  const NodeInput products = layer_of(node, x, vectors, nullptr);
  if (kind == "LINEAR") return products;
  if (kind != "POLY" && kind != "SIGMOID")
    fail("kernel_type \"{}\", expected LINEAR, POLY, RBF or SIGMOID", kind);
  const NodeInput scaled = node.add("mul", {products, NodeImport::number_of(numbers[0])});
  const NodeInput sums = node.add("add", {scaled, NodeImport::number_of(numbers[1])});
  if (kind == "SIGMOID") return node.add("tanh", {sums});
  return node.add("pow", {sums, NodeImport::number_of(numbers[2])});
}

/// The support vectors, [count, features].
Tensor support_vectors(const NodeImport& node, int64_t count) {
  const Tensor vectors = floats_of(node, "support_vectors");
  const auto features = node.size(0, -1);
  if (count < 1 || vectors.numel() < count || vectors.numel() % count != 0)
    fail("{} numbers of {} support vectors", vectors.numel(), count);
  if (features && *features != vectors.numel() / count)
    fail("support vectors of {} features for an input of {}", vectors.numel() / count, *features);
  return vectors.reshaped({count, vectors.numel() / count});
}

void expect_count(const Tensor& numbers, int64_t count, const char* what) {
  if (numbers.numel() != count) fail("{} {}, expected {}", numbers.numel(), what, count);
}

/// Above 0: 1, else -1.
NodeInput inside_or_outside(NodeImport& node, const NodeInput& score) {
  const NodeInput is_inside = node.add("gt", {score, NodeImport::number_of(0)});
  const NodeInput one_or_zero = node.add("cast", {is_inside}, {{"dtype", "float32"}});
  const NodeInput doubled = node.add("mul", {one_or_zero, NodeImport::number_of(2)});
  return node.add("sub", {doubled, NodeImport::number_of(1)});
}

void convert_svm_regressor(NodeImport& node) {
  const int64_t count = node.integer("n_supports", 0);
  const Tensor coefficients = floats_of(node, "coefficients");
  const Tensor rho = floats_of(node, "rho");
  expect_count(rho, 1, "numbers in rho");
  NodeInput x = machine_rows(node);
  if (count > 0) {
    x = kernel_of(node, x, support_vectors(node, count));
    expect_count(coefficients, count, "coefficients");
  }
  NodeInput score = layer_of(node, x, coefficients.reshaped({1, coefficients.numel()}), &rho);
  if (node.integer("one_class", 0) != 0) score = inside_or_outside(node, score);
  node.set_output(0, post_transformed(node, score));
}

/// Pairs of classes i < j, in order.
std::vector<std::pair<int64_t, int64_t>> class_pairs(int64_t classes) {
  std::vector<std::pair<int64_t, int64_t>> pairs;
  for (int64_t i = 0; i < classes; ++i)
    for (int64_t j = i + 1; j < classes; ++j) pairs.emplace_back(i, j);
  return pairs;
}

/// Weights of the vectors for each pair, [pairs, vectors], from `coefficients`, [classes - 1, vectors]: those
/// of class i against j stand in row j - 1, those of j against i in row i.
Tensor pair_weights(const Tensor& coefficients, const std::vector<int64_t>& vectors_of_class) {
  const auto pairs = class_pairs(std::ssize(vectors_of_class));
  const int64_t count = std::reduce(vectors_of_class.begin(), vectors_of_class.end());
  Tensor weights(DType::kFloat32, {std::ssize(pairs), count});
  std::vector<int64_t> first(vectors_of_class.size());
  std::exclusive_scan(vectors_of_class.begin(), vectors_of_class.end(), first.begin(), int64_t{0});
  const auto from = coefficients.values<float>();
  const auto to = weights.values<float>();
  for (size_t pair = 0; pair < pairs.size(); ++pair) {
    const auto copy = [&](int64_t of, int64_t row) {
      const auto n = static_cast<size_t>(of);
      const auto source = from.begin() + row * count + first[n];
      std::copy_n(source, vectors_of_class[n], to.begin() + static_cast<int64_t>(pair) * count + first[n]);
    };
    const auto [i, j] = pairs[pair];
    copy(i, j - 1);
    copy(j, i);
  }
  return weights;
}

/// The class that wins most pairs, the first of several: [N].
NodeInput winners(NodeImport& node, const NodeInput& scores, int64_t classes) {
  const auto pairs = class_pairs(classes);
  Tensor first(DType::kFloat32, {std::ssize(pairs), classes});
  Tensor second(DType::kFloat32, {std::ssize(pairs), classes});
  for (size_t pair = 0; pair < pairs.size(); ++pair) {
    const auto row = static_cast<int64_t>(pair) * classes;
    first.values<float>()[static_cast<size_t>(row + pairs[pair].first)] = 1;
    second.values<float>()[static_cast<size_t>(row + pairs[pair].second)] = 1;
  }
  const NodeInput column = node.add("unsqueeze", {scores, NodeImport::list_of({-1})});
  const NodeInput is_first = node.add("gt", {column, NodeImport::number_of(0)});
  const NodeInput votes = node.add("where", {is_first, node.constant_of(first), node.constant_of(second)});
  const NodeInput sums = node.add("sum", {votes, NodeImport::list_of({1})});
  return node.add("argmax", {sums}, {{"dim", -1}, {"keepdim", false}});
}

/// Without support vectors: a score of each class.
void convert_linear_machine(NodeImport& node, int64_t classes) {
  const Tensor coefficients = floats_of(node, "coefficients");
  const Tensor rho = floats_of(node, "rho");
  if (rho.numel() < 1 || coefficients.numel() % classes != 0)
    fail("{} coefficients and {} numbers in rho for {} classes", coefficients.numel(), rho.numel(), classes);
  if (classes == 2) node.refuse("two classes without support vectors");
  Tensor bias(DType::kFloat32, {classes});
  std::ranges::fill(bias.values<float>(), rho.values<float>()[0]);
  const Tensor weight = coefficients.reshaped({classes, coefficients.numel() / classes});
  const NodeInput scores = layer_of(node, machine_rows(node), weight, &bias);
  set_labels(node, node.add("argmax", {scores}, {{"dim", -1}, {"keepdim", false}}));
  node.set_output(1, post_transformed(node, scores));
}

void convert_svm_classifier(NodeImport& node) {
  const int64_t classes = class_labels(node).numbers.numel();
  if (classes < 2 || classes > kMostClasses) fail("{} classes, expected 2 to {}", classes, kMostClasses);
  const std::vector<int64_t> vectors_of_class = node.integers("vectors_per_class", {});
  if (vectors_of_class.empty()) return convert_linear_machine(node, classes);
  const auto is_negative = [](int64_t n) { return n < 0; };
  if (std::ssize(vectors_of_class) != classes || std::ranges::any_of(vectors_of_class, is_negative))
    fail("vectors_per_class {} of {} classes", shape_text(vectors_of_class), classes);
  const int64_t count = std::reduce(vectors_of_class.begin(), vectors_of_class.end());
  const Tensor vectors = support_vectors(node, count);
  const Tensor coefficients = floats_of(node, "coefficients");
  expect_count(coefficients, (classes - 1) * count, "coefficients");
  const Tensor rho = floats_of(node, "rho");
  expect_count(rho, classes * (classes - 1) / 2, "numbers in rho");
  const NodeInput kernel = kernel_of(node, machine_rows(node), vectors);
  const NodeInput scores = layer_of(node, kernel, pair_weights(coefficients, vectors_of_class), &rho);
  set_labels(node, winners(node, scores, classes));
  if (node.has_attribute("prob_a") && !node.numbers("prob_a").empty())
    return node.set_output(1, coupled_probabilities(node, scores, classes));
  if (classes > 2) return node.set_output(1, post_transformed(node, scores));
  if (const std::string transform = node.text("post_transform", "NONE"); transform != "NONE")
    node.refuse(fmt::format("post_transform \"{}\" of two classes", transform));
  node.set_output(1, node.add("cat", {node.add("neg", {scores}), scores}, {{"dim", 1}}));
}

}  // namespace

OnnxConverterList support_vector_converters() {
  return {{"SVMRegressor", convert_svm_regressor}, {"SVMClassifier", convert_svm_classifier}};
}

}  // namespace detent

#include <cmath>
#include <numbers>

#include "detent/core/convert.h"
#include "detent/core/error.h"
#include "detent/operators/onnx_import.h"

namespace detent {
namespace {

// Operators of ai.onnx.ml that stand around networks.

NodeInput as_floats(NodeImport& node, size_t input) {
  if (node.type(input).dtype == DType::kFloat32) return node.input(input);
  return node.add("cast", {node.input(input)}, {{"dtype", "float32"}});
}

/// An attribute of numbers, one or one for each feature.
NodeInput features(NodeImport& node, const char* name) {
  const std::vector<double> numbers = node.numbers(name);
  Tensor tensor(DType::kFloat32, {std::ssize(numbers)});
  for (size_t i = 0; float& value : tensor.values<float>()) value = static_cast<float>(numbers[i++]);
  return node.constant_of(tensor);
}

/// (x - offset) scale
void convert_scaler(NodeImport& node) {
  NodeInput x = as_floats(node, 0);
  if (node.has_attribute("offset")) x = node.add("sub", {x, features(node, "offset")});
  if (node.has_attribute("scale")) x = node.add("mul", {x, features(node, "scale")});
  node.set_output(0, x);
}

void convert_binarizer(NodeImport& node) {
  const NodeInput above = node.add("gt", {node.input(0), NodeImport::number_of(node.number("threshold", 0))});
  node.set_output(0, node.add("cast", {above}, {{"dtype", std::string(dtype_name(node.type(0).dtype))}}));
}

/// Rows over their largest element, the sum of their magnitudes, or their length; rows of zeros stay.
void convert_normalizer(NodeImport& node) {
  const std::string norm = node.text("norm", "MAX");
  const NodeInput x = as_floats(node, 0);
  const NodeInput last = NodeImport::list_of({-1});
  const Table kept = {{"keepdim", true}};
  NodeInput size;
  if (norm == "MAX") {
    size = node.add("amax", {x, last}, kept);
  } else if (norm == "L1") {
    size = node.add("sum", {node.add("abs", {x}), last}, kept);
  } else if (norm == "L2") {
    size = node.add("sqrt", {node.add("sum", {node.add("mul", {x, x}), last}, kept)});
  } else {
    fail("norm is \"{}\", expected MAX, L1 or L2", norm);
  }
  const NodeInput is_zero = node.add("eq", {size, NodeImport::number_of(0)});
  node.set_output(0, node.add("where", {is_zero, x, node.add("div", {x, size})}));
}

void convert_feature_extractor(NodeImport& node) {
  NodeInput places = node.input(1);
  if (node.rank(1) != 1) places = node.add("dynamic_reshape", {places, NodeImport::list_of({-1})});
  NodeInput result = node.add("gather", {node.input(0), places}, {{"dim", -1}});
  if (node.rank(0) == 1) result = node.add("unsqueeze", {result, NodeImport::list_of({0})});
  node.set_output(0, result);
}

/// A list that a node gives as a tensor, or as numbers of one type.
std::optional<Tensor> encoder_list(const NodeImport& node, const std::string& what) {
  const auto named = [&](const char* suffix) { return what + suffix; };
  for (const char* suffix : {"_tensor", "_floats", "_int64s", "_strings"})
    if (node.has_attribute(named(suffix).c_str())) return node.tensor(named(suffix).c_str());
  return std::nullopt;
}

/// The element type that the model has for such a list.
const NarrowType* encoder_type(const NodeImport& node, const std::string& what) {
  if (node.has_attribute((what + "_strings").c_str())) return find_narrow_type(kOnnxText);
  return node.attribute_narrow_type((what + "_tensor").c_str());
}

Tensor encoder_default(const NodeImport& node, DType dtype, bool is_text) {
  if (is_text && node.has_attribute("default_string")) return node.tensor("default_string");
  if (node.has_attribute("default_tensor"))
    return to_dtype(node.tensor("default_tensor"), dtype).reshaped({});
  if (dtype == DType::kInt64)
    return Tensor::from<int64_t>({}, std::vector<int64_t>{node.integer("default_int64", -1)});
  return Tensor::from<float>({}, std::vector<float>{static_cast<float>(node.number("default_float", -0.0F))});
}

/// The value that belongs to each key; what is no key gets the default.
void convert_label_encoder(NodeImport& node) {
  constexpr int64_t kMostKeys = 1 << 16;
  const auto keys = encoder_list(node, "keys");
  const auto values = encoder_list(node, "values");
  if (!keys || !values) fail("no keys or no values");
  const NarrowType* const type = encoder_type(node, "values");
  if ((node.narrow_type(0) != nullptr) != (encoder_type(node, "keys") != nullptr))
    node.refuse("keys of another type than the input");
  if (keys->rank() != 1 || keys->shape() != values->shape() || keys->numel() < 1 || keys->numel() > kMostKeys)
    fail("{} keys and {} values", keys->numel(), values->numel());
  const NodeInput column = node.add("unsqueeze", {node.input(0), NodeImport::list_of({-1})});
  const Tensor of_type = to_dtype(*keys, node.type(0).dtype);
  NodeInput is_key = node.add("eq", {column, node.constant_of(of_type)});
  if (node.type(0).dtype == DType::kFloat32) {
    Tensor is_nan(DType::kBool, of_type.shape());
    for (size_t i = 0; bool& nan : is_nan.values<bool>())
      nan = of_type.values<float>()[i] != of_type.values<float>()[i], ++i;
    const NodeInput both = node.add("logical_and", {node.add("isnan", {column}), node.constant_of(is_nan)});
    is_key = node.add("logical_or", {is_key, both});
  }
  const NodeInput found = node.add("cast", {is_key}, {{"dtype", "float32"}});
  const NodeInput place = node.add("argmax", {found}, {{"dim", -1}, {"keepdim", false}});
  const NodeInput any =
      node.add("gt", {node.add("sum", {found, NodeImport::list_of({-1})}), NodeImport::number_of(0)});
  const NodeInput value = node.add("gather", {node.constant_of(*values), place}, {{"dim", 0}});
  const Tensor otherwise = encoder_default(node, values->dtype(), type != nullptr && type->is_text());
  node.set_output(0, node.add("where", {any, value, node.constant_of(otherwise)}));
  node.set_narrow_type(0, type);
}

/// For each category 1 where an element is that one, else 0.
void convert_one_hot_encoder(NodeImport& node) {
  if (!node.has_attribute("cats_int64s")) node.refuse("categories of strings");
  node.integer("zeros", 1);  // ONNX Runtime refuses elements of no category where this is 0
  const NodeInput column = node.add("unsqueeze", {node.input(0), NodeImport::list_of({-1})});
  const Tensor categories = to_dtype(node.tensor("cats_int64s"), node.type(0).dtype);
  const NodeInput is_category = node.add("eq", {column, node.constant_of(categories)});
  node.set_output(0, node.add("cast", {is_category}, {{"dtype", "float32"}}));
}

/// Other values, one or one for each feature, in place of one value, which may be NaN.
void convert_imputer(NodeImport& node) {
  const bool has_integers = node.type(0).dtype == DType::kInt64;
  const char* const imputed = has_integers ? "imputed_value_int64s" : "imputed_value_floats";
  if (!node.has_attribute(imputed)) fail("no {}", imputed);
  const NodeInput values = node.constant_of(to_dtype(node.tensor(imputed), node.type(0).dtype));
  const double replaced = node.number("replaced_value_float", 0);
  const int64_t replaced_integer = node.integer("replaced_value_int64", 0);
  const NodeInput x = node.input(0);
  const NodeInput number =
      has_integers ? NodeImport::integer_of(replaced_integer) : NodeImport::number_of(replaced);
  const bool is_nan = !has_integers && std::isnan(replaced);
  const NodeInput is_missing = is_nan ? node.add("isnan", {x}) : node.add("eq", {x, number});
  node.set_output(0, node.add("where", {is_missing, values, x}));
}

/// Columns side by side, all of a sample; numbers without a dimension of samples are those of one.
void convert_feature_vectorizer(NodeImport& node) {
  const std::vector<int64_t> columns = node.integers("inputdimensions", {});
  std::vector<NodeInput> parts;
  for (size_t i = 0; i < node.input_count(); ++i) {
    NodeInput part = as_floats(node, i);
    if (node.rank(i) == 1) part = node.add("unsqueeze", {part, NodeImport::list_of({0})});
    if (node.rank(i) > 2) part = node.add("flatten", {part}, {{"start_dim", 1}});
    const Shape& shape = node.type_of(part).shape;
    if (shape.size() != 2) node.refuse("an input without dimensions");
    if (i < columns.size() && shape[1] != columns[i])
      node.refuse(fmt::format("inputdimensions {} that are not those of the inputs", shape_text(columns)));
    parts.push_back(part);
  }
  node.set_output(0, node.add("cat", std::move(parts), {{"dim", 1}}));
}

/// The layer of a linear model: `rows` sums of all features.
NodeInput linear_model(NodeImport& node, int64_t rows) {
  const Tensor coefficients = node.tensor("coefficients");
  if (rows < 1 || coefficients.numel() < rows || coefficients.numel() % rows != 0)
    fail("{} coefficients for {} results", coefficients.numel(), rows);
  const Tensor weight = coefficients.reshaped({rows, coefficients.numel() / rows});
  NodeImport::Parameters parameters = {{"weight", NodeImport::parameter(to_dtype(weight, DType::kFloat32))}};
  if (node.has_attribute("intercepts") && !node.numbers("intercepts").empty()) {
    const Tensor bias = node.tensor("intercepts");
    if (bias.numel() != rows) fail("{} intercepts for {} results", bias.numel(), rows);
    parameters.emplace_back("bias", NodeImport::parameter(to_dtype(bias, DType::kFloat32)));
  }
  NodeInput x = as_floats(node, 0);
  if (node.rank(0) == 1) x = node.add("unsqueeze", {x, NodeImport::list_of({0})});
  return node.add("linear", {x}, {}, std::move(parameters));
}

void convert_linear_regressor(NodeImport& node) {
  node.set_output(0, post_transformed(node, linear_model(node, node.integer("targets", 1))));
}

/// The label of the largest score, and the scores.
void convert_linear_classifier(NodeImport& node) {
  node.integer("multi_class", 0);
  const int64_t count = class_labels(node).numbers.numel();
  if (node.tensor("coefficients").numel() == node.size(0, -1)) node.refuse("one score of two classes");
  const NodeInput scores = linear_model(node, count);
  set_labels(node, node.add("argmax", {scores}, {{"dim", -1}, {"keepdim", false}}));
  node.set_output(1, post_transformed(node, scores));
}

/// Softmax whose zeros stay zeros.
NodeInput softmax_but_zeros(NodeImport& node, const NodeInput& scores) {
  constexpr double kLeast = 1e-7;  // of what is no zero
  const NodeInput last = NodeImport::list_of({-1});
  const NodeInput most = node.add("amax", {scores, last}, {{"keepdim", true}});
  const NodeInput powers = node.add("exp", {node.add("sub", {scores, most})});
  const NodeInput counts = node.add("gt", {node.add("abs", {scores}), NodeImport::number_of(kLeast)});
  const NodeInput shares = node.add("where", {counts, powers, NodeImport::number_of(0)});
  const NodeInput sum = node.add("sum", {shares, last}, {{"keepdim", true}});
  const NodeInput none = node.add("eq", {sum, NodeImport::number_of(0)});
  return node.add("div", {shares, node.add("where", {none, NodeImport::number_of(1), sum})});
}

/// sqrt(2) erfinv(2 x - 1), with Winitzki's inverse as in ONNX Runtime.
NodeInput probit(NodeImport& node, const NodeInput& x) {
  constexpr double kA = 0.147F;
  constexpr double kPi = 3.14159F;
  const auto times = [&](const NodeInput& a, double b) {
    return node.add("mul", {a, NodeImport::number_of(b)});
  };
  const NodeInput y = node.add("sub", {times(x, 2), NodeImport::number_of(1)});
  const NodeInput rest =
      node.add("log", {node.add("sub", {NodeImport::number_of(1), node.add("mul", {y, y})})});
  const NodeInput v = node.add("add", {times(rest, 0.5), NodeImport::number_of(2 / (kPi * kA))});
  const NodeInput squares = node.add("sub", {node.add("mul", {v, v}), times(rest, 1 / kA)});
  const NodeInput root = node.add("sqrt", {node.add("sub", {node.add("sqrt", {squares}), v})});
  const NodeInput is_less = node.add("lt", {y, NodeImport::number_of(0)});
  return times(node.add("where", {is_less, node.add("neg", {root}), root}), std::numbers::sqrt2);
}

/// Probabilities stay a tensor, of a column for each class.
void convert_zip_map(NodeImport& node) { node.set_output(0, node.input(0)); }

}  // namespace

ClassLabels class_labels(const NodeImport& node) {
  for (const char* name : {"classlabels_strings", "classlabels_int64s", "classlabels_ints"}) {
    if (!node.has_attribute(name)) continue;
    const Tensor numbers = node.tensor(name);
    if (numbers.numel() < 1) continue;
    return {numbers, node.attribute_narrow_type(name)};
  }
  fail("no labels of classes");
}

void set_labels(NodeImport& node, const NodeInput& places) {
  const ClassLabels labels = class_labels(node);
  node.set_output(0, node.add("gather", {node.constant_of(labels.numbers), places}, {{"dim", 0}}));
  node.set_narrow_type(0, labels.type);
}

NodeInput post_transformed(NodeImport& node, const NodeInput& scores) {
  return post_transformed(node, scores, node.text("post_transform", "NONE"));
}

NodeInput post_transformed(NodeImport& node, const NodeInput& scores, const std::string& transform) {
  if (transform == "NONE") return scores;
  if (transform != "PROBIT" && node.type_of(scores).shape.back() == 1)
    node.warn("post_transform " + transform + " of one score, which ONNX Runtime leaves as it is");
  if (transform == "LOGISTIC") return node.add("sigmoid", {scores});
  if (transform == "SOFTMAX") return node.add("softmax", {scores}, {{"dim", -1}});
  if (transform == "SOFTMAX_ZERO") return softmax_but_zeros(node, scores);
  if (transform == "PROBIT") return probit(node, scores);
  node.refuse(fmt::format("post_transform \"{}\"", transform));
}

OnnxConverterList feature_converters() {
  return {{"Scaler", convert_scaler},
          {"Binarizer", convert_binarizer},
          {"Normalizer", convert_normalizer},
          {"ArrayFeatureExtractor", convert_feature_extractor},
          {"LabelEncoder", convert_label_encoder},
          {"OneHotEncoder", convert_one_hot_encoder},
          {"Imputer", convert_imputer},
          {"FeatureVectorizer", convert_feature_vectorizer},
          {"LinearRegressor", convert_linear_regressor},
          {"LinearClassifier", convert_linear_classifier},
          {"ZipMap", convert_zip_map}};
}

}  // namespace detent

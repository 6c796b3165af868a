#include <algorithm>
#include <numeric>

#include "detent/core/error.h"
#include "detent/operators/layers/onnx_import.h"
#include "detent/operators/onnx_import.h"

namespace detent {
namespace {

bool is_float_tensor(const Tensor& tensor) { return tensor.dtype() == DType::kFloat32; }

std::vector<int64_t> spatial(const Shape& weight) {
  if (weight.size() < 3) fail("a weight of shape {}, expected [out, in, ...]", shape_text(weight));
  return {weight.begin() + 2, weight.end()};
}

/// Whether weight and bias are constants, so that they become parameters of a layer.
bool has_constant_weights(const NodeImport& node) {
  const auto is_usable = [&](size_t index) {
    return !node.has_input(index) ||
           (node.constant(index) != nullptr && is_float_tensor(*node.constant(index)));
  };
  return node.constant(1) != nullptr && is_usable(1) && is_usable(2);
}

NodeImport::Parameters weight_and_bias(NodeImport& node, bool has_bias) {
  NodeImport::Parameters parameters = {{"weight", node.parameter(1)}};
  if (has_bias) parameters.emplace_back("bias", node.parameter(2));
  return parameters;
}

NodeInput convolved(NodeImport& node) {
  const Shape weight = node.shape(1);
  const ImportedWindow window = imported_window(node, spatial(weight), OpenBorders::kComputed);
  if (window.kernel != spatial(weight))
    fail("kernel_shape {} and a weight of shape {}", shape_text(window.kernel), shape_text(weight));
  const NodeInput input = window.computed_border  ? with_computed_border(node, window, node.input(0), 0)
                          : window.is_symmetric() ? node.input(0)
                                                  : with_border(node, window, node.input(0), 0);
  Table attributes = convolution_attributes(node, window);
  const size_t dims = window.kernel.size();
  if (dims <= 3 && has_constant_weights(node)) {
    return node.add(fmt::format("conv{}d", dims), {input}, std::move(attributes),
                    weight_and_bias(node, node.has_input(2)));
  }
  std::vector<NodeInput> inputs = {input, node.input(1)};
  if (node.has_input(2)) inputs.push_back(node.input(2));
  return node.add("convolution", std::move(inputs), std::move(attributes));
}

void convert_conv(NodeImport& node) { node.set_output(0, convolved(node)); }

/// The border that is cut from each side of the result, and what is added after it.
struct TransposedBorder {
  std::vector<int64_t> before;
  std::vector<int64_t> after;
  std::vector<int64_t> extra;
};

/// `output_shape` is what the border follows from, where it is given; so does auto_pad.
TransposedBorder transposed_border(const NodeImport& node, const ImportedWindow& window) {
  const size_t dims = window.kernel.size();
  TransposedBorder border{window.before, window.after,
                          node.integers("output_padding", std::vector<int64_t>(dims, 0))};
  if (border.extra.size() != dims)
    fail("output_padding has {} numbers, expected {}", border.extra.size(), dims);
  std::vector<int64_t> wanted = node.integers("output_shape", {});
  const std::string automatic = node.text("auto_pad", "NOTSET");
  const bool same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
  if (wanted.empty() && !same) return border;
  if (wanted.size() == dims + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
  if (!wanted.empty() && wanted.size() != dims)
    fail("output_shape has {} numbers, expected {}", wanted.size(), dims);
  for (size_t i = 0; i < dims; ++i) {
    const auto size = node.size(0, static_cast<int64_t>(i) + 2);
    if (!size && !wanted.empty())
      node.refuse(fmt::format("output_shape where the size of dimension {} is open", i + 2));
    // auto_pad gives size * stride positions, whatever the size.
    const int64_t beyond = wanted.empty() ? 0 : wanted[i] - *size * window.stride[i];
    const int64_t total =
        border.extra[i] + (window.kernel[i] - 1) * window.dilation[i] + 1 - window.stride[i] - beyond;
    // Additional positions of a larger result lie at the end, as in ONNX Runtime; ONNX does not say where.
    border.before[i] = std::max<int64_t>(automatic == "SAME_UPPER" ? total / 2 : total - total / 2, 0);
    border.after[i] = total - border.before[i];
  }
  return border;
}

/// The bias, input 2, for [N, C, ...] of so many spatial dimensions.
NodeInput bias_along_channels(NodeImport& node, size_t dims) {
  std::vector<int64_t> added(dims);
  std::iota(added.begin(), added.end(), 1);
  return node.add("unsqueeze", {node.input(2), NodeImport::list_of(added)});
}

/// libtorch's layer cuts the same border on both sides, and none below 0: a pad or slice does the rest
/// afterwards. The bias comes after that where it adds positions.
void convert_transposed(NodeImport& node) {
  const Shape weight = node.shape(1);
  const ImportedWindow window = imported_window(node, spatial(weight), OpenBorders::kComputed);
  TransposedBorder border = transposed_border(node, window);
  const size_t dims = window.kernel.size();
  std::vector<int64_t> padding(dims);
  for (size_t i = 0; i < dims; ++i)
    padding[i] = std::max<int64_t>(std::min(border.before[i], border.after[i]), 0);
  Table attributes = {{"stride", Value(window.stride)},
                      {"padding", Value(padding)},
                      {"output_padding", Value(border.extra)},
                      {"dilation", Value(window.dilation)},
                      {"groups", node.integer("group", 1)}};
  std::vector<int64_t> before(dims);
  std::vector<int64_t> after(dims);
  std::ranges::transform(padding, border.before, before.begin(), std::minus());
  std::ranges::transform(padding, border.after, after.begin(), std::minus());
  const auto adds_some = [](int64_t size) { return size > 0; };
  const bool adds = std::ranges::any_of(before, adds_some) || std::ranges::any_of(after, adds_some);
  const bool has_bias = node.has_input(2) && !adds;
  NodeInput result;
  if (dims <= 3 && has_constant_weights(node)) {
    result = node.add(fmt::format("convtranspose{}d", dims), {node.input(0)}, std::move(attributes),
                      weight_and_bias(node, has_bias));
  } else {
    attributes["transposed"] = true;
    std::vector<NodeInput> inputs = {node.input(0), node.input(1)};
    if (has_bias) inputs.push_back(node.input(2));
    result = node.add("convolution", std::move(inputs), std::move(attributes));
  }
  const std::vector<int64_t> none(dims, 0);
  if (before != none || after != none)
    result = node.add("dynamic_pad", {result, spatial_borders(before, after)});
  if (node.has_input(2) && !has_bias) result = node.add("add", {result, bias_along_channels(node, dims)});
  node.set_output(0, result);
}

Tensor transposed(const Tensor& matrix, float factor) {
  const int64_t rows = matrix.dim(0);
  const int64_t columns = matrix.dim(1);
  Tensor result(DType::kFloat32, {columns, rows});
  const auto from = matrix.values<float>();
  const auto to = result.values<float>();
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c)
      to[static_cast<size_t>(c * rows + r)] = factor * from[static_cast<size_t>(r * columns + c)];
  }
  return result;
}

Tensor scaled(const Tensor& tensor, float factor) {
  if (factor == 1) return tensor;
  Tensor result = tensor.clone();
  for (float& value : result.values<float>()) value *= factor;
  return result;
}

/// beta C as a bias of `out` elements; nothing where it has another shape.
std::optional<ParameterRef> gemm_bias(NodeImport& node, float beta, int64_t out) {
  const Tensor& given = *node.constant(2);
  const bool is_row = given.numel() == out && (given.rank() == 0 || given.dim(-1) == out);
  if (!is_row && given.numel() != 1) return std::nullopt;
  if (is_row && beta == 1) return node.reshaped_parameter(2, {out});
  Tensor bias(DType::kFloat32, {out});
  const auto from = given.values<float>();
  const auto to = bias.values<float>();
  for (size_t i = 0; i < to.size(); ++i) to[i] = beta * from[from.size() == 1 ? 0 : i];
  return NodeImport::parameter(bias);
}

NodeInput with_last_exchanged(NodeImport& node, NodeInput x) {
  return node.add("transpose", {std::move(x)}, {{"dim0", -2}, {"dim1", -1}});
}

bool is_float_weight(const NodeImport& node, size_t index) {
  const Tensor* constant = node.constant(index);
  return constant != nullptr && is_float_tensor(*constant) && constant->numel() > 0;
}

/// Whether one factor of a product may be the weight of a layer: a constant, while the other one is computed.
bool is_layer(const NodeImport& node, size_t weight) {
  const size_t other = 1 - weight;
  return is_float_weight(node, weight) && node.constant(other) == nullptr &&
         node.type(other).dtype == DType::kFloat32 && node.rank(other) >= 1;
}

/// Scaled by alpha, and as linear layers have it.
ParameterRef gemm_weight(NodeImport& node, size_t index, bool as_given, float alpha) {
  if (alpha == 1) return as_given ? node.parameter(index) : node.transposed_parameter(index);
  const Tensor& given = *node.constant(index);
  return NodeImport::parameter(as_given ? scaled(given, alpha) : transposed(given, alpha));
}

/// alpha A B of matrices; where one is constant a layer, which may take beta C as its bias: then `added` is
/// false.
NodeInput gemm_product(NodeImport& node, float alpha, float beta, bool& added) {
  const bool transpose_a = node.integer("transA", 0) != 0;
  const bool transpose_b = node.integer("transB", 0) != 0;
  const auto oriented = [&](size_t index, bool is_transposed) {
    return is_transposed ? with_last_exchanged(node, node.input(index)) : node.input(index);
  };
  // Beyond the standard, some tools write batches of matrices.
  const bool is_matrix = node.rank(0) == 2 && node.rank(1) == 2;
  if (is_matrix && is_layer(node, 1)) {
    const bool may_be_bias = added && is_float_weight(node, 2);
    const int64_t out = node.constant(1)->dim(transpose_b ? 0 : 1);
    NodeImport::Parameters parameters = {{"weight", gemm_weight(node, 1, transpose_b, alpha)}};
    if (const auto bias = may_be_bias ? gemm_bias(node, beta, out) : std::nullopt) {
      parameters.emplace_back("bias", *bias);
      added = false;
    }
    return node.add("linear", {oriented(0, transpose_a)}, {}, std::move(parameters));
  }
  if (is_matrix && is_layer(node, 0)) {
    const NodeInput rows = oriented(1, !transpose_b);
    NodeInput result =
        node.add("linear", {rows}, {}, {{"weight", gemm_weight(node, 0, !transpose_a, alpha)}});
    return with_last_exchanged(node, result);
  }
  NodeInput product = node.add("matmul", {oriented(0, transpose_a), oriented(1, transpose_b)});
  if (alpha == 1) return product;
  return node.add("mul", {product, NodeImport::number_of(static_cast<double>(alpha))});
}

/// alpha A B + beta C
NodeInput matrix_sum(NodeImport& node) {
  const auto alpha = static_cast<float>(node.number("alpha", 1.0));
  const auto beta = static_cast<float>(node.number("beta", 1.0));
  if (node.rank(0) < 2 || node.rank(1) < 2)
    fail("inputs of {} and {} dimensions, expected matrices", node.rank(0), node.rank(1));
  bool added = node.has_input(2);
  NodeInput result = gemm_product(node, alpha, beta, added);
  if (added) {
    NodeInput addend = node.input(2);
    if (beta != 1) addend = node.add("mul", {addend, NodeImport::number_of(static_cast<double>(beta))});
    result = node.add("add", {result, addend});
  }
  return result;
}

void convert_gemm(NodeImport& node) { node.set_output(0, matrix_sum(node)); }

/// The function that ONNX Runtime's optimizer has put after a layer, with its numbers where it has any.
NodeInput activated(NodeImport& node, NodeInput x, const std::string& function,
                    const std::vector<double>& numbers) {
  const auto number = [&](size_t index, float otherwise) {
    return index < numbers.size() ? numbers[index] : static_cast<double>(otherwise);
  };
  if (function.empty()) return x;
  if (function == "Relu") return node.add("relu", {std::move(x)});
  if (function == "Tanh") return node.add("tanh", {std::move(x)});
  if (function == "Sigmoid") return node.add("sigmoid", {std::move(x)});
  if (function == "HardSwish" && numbers.empty()) return node.add("hardswish", {std::move(x)});
  if (function == "Softplus") return node.add("softplus", {std::move(x)});
  if (function == "Softsign") return node.add("softsign", {std::move(x)});
  if (function == "LeakyRelu")
    return node.add("leaky_relu", {std::move(x)}, {{"negative_slope", number(0, 0.01F)}});
  if (function == "Elu") return node.add("elu", {std::move(x)}, {{"alpha", number(0, 1)}});
  if (function == "ThresholdedRelu")
    return node.add("thresholded_relu", {std::move(x)}, {{"alpha", number(0, 1)}});
  if (function == "HardSigmoid")
    return node.add("hardsigmoid", {std::move(x)}, {{"alpha", number(0, 0.2F)}, {"beta", number(1, 0.5F)}});
  if (function == "Clip" && numbers.size() == 2)
    return node.add("clamp",
                    {std::move(x), NodeImport::number_of(numbers[0]), NodeImport::number_of(numbers[1])});
  node.refuse(fmt::format("the activation \"{}\" with {} numbers", function, numbers.size()));
}

/// A convolution, what is added to it, and a function of the sum.
void convert_fused_conv(NodeImport& node) {
  NodeInput result = convolved(node);
  if (node.has_input(3)) result = node.add("add", {result, node.input(3)});
  node.set_output(
      0, activated(node, std::move(result), node.text("activation", ""), node.numbers("activation_params")));
}

void convert_fused_gemm(NodeImport& node) {
  const std::string function = node.text("activation", "");
  std::vector<double> numbers;
  for (const char* name : {"activation_alpha", "activation_beta"})
    if (node.has_attribute(name)) numbers.push_back(node.number(name, 0));
  node.set_output(0, activated(node, matrix_sum(node), function, numbers));
}

/// With the first dimension as the last but one.
NodeInput with_first_after(NodeImport& node, NodeInput x, size_t rank) {
  std::vector<int64_t> dims;
  for (size_t d = 1; d + 1 < rank; ++d) dims.push_back(static_cast<int64_t>(d));
  dims.push_back(0);
  dims.push_back(static_cast<int64_t>(rank) - 1);
  return node.add("permute", {std::move(x)}, {{"dims", Value(dims)}});
}

struct TransposedFactor {
  bool batch;
  bool matrix;
};

NodeInput transposed_factor(NodeImport& node, size_t index, const TransposedFactor& transposed) {
  NodeInput factor = node.input(index);
  const size_t rank = node.rank(index);
  if (rank < 2 && (transposed.batch || transposed.matrix)) fail("a vector that is transposed");
  if (transposed.batch && rank > 2) factor = with_first_after(node, std::move(factor), rank);
  return transposed.matrix ? node.add("transpose", {std::move(factor)}, {{"dim0", -2}, {"dim1", -1}})
                           : factor;
}

/// alpha op(A) op(B), where op transposes: a linear layer where B is a constant matrix.
void convert_fused_matmul(NodeImport& node) {
  const auto alpha = static_cast<float>(node.number("alpha", 1));
  const TransposedFactor of_a = {node.integer("transBatchA", 0) != 0, node.integer("transA", 0) != 0};
  const TransposedFactor of_b = {node.integer("transBatchB", 0) != 0, node.integer("transB", 0) != 0};
  for (const size_t i : {size_t{0}, size_t{1}})
    if (node.rank(i) < 2) node.refuse(fmt::format("an input of {} dimensions", node.rank(i)));
  const NodeInput a = transposed_factor(node, 0, of_a);
  const Tensor* const weight = node.constant(1);
  if (weight != nullptr && is_float_tensor(*weight) && weight->rank() == 2 && node.constant(0) == nullptr) {
    const ParameterRef parameter =
        alpha != 1 ? NodeImport::parameter(of_b.matrix ? scaled(*weight, alpha) : transposed(*weight, alpha))
        : of_b.matrix ? node.parameter(1)
                      : node.transposed_parameter(1);
    return node.set_output(0, node.add("linear", {a}, {}, {{"weight", parameter}}));
  }
  NodeInput result = node.add("matmul", {a, transposed_factor(node, 1, of_b)});
  if (alpha != 1) result = node.add("mul", {result, NodeImport::number_of(static_cast<double>(alpha))});
  node.set_output(0, result);
}

/// A constant [..., rows, columns] of several matrices, of which each has a matrix of its own to multiply.
struct MatrixStack {
  Shape leading;
  int64_t rows;
  int64_t columns;

  int64_t count() const { return element_count(leading); }
};

/// The shape of a constant factor without what only broadcasts.
Shape factor_shape(const NodeImport& node, size_t weight) {
  Shape shape = node.constant(weight)->shape();
  while (shape.size() > 2 && shape.front() == 1 && node.rank(1 - weight) >= shape.size())
    shape.erase(shape.begin());
  return shape;
}

/// Nothing where the other factor broadcasts, or its sizes are open.
std::optional<MatrixStack> matrix_stack(const NodeImport& node, size_t weight) {
  const Shape shape = factor_shape(node, weight);
  const size_t rank = node.rank(1 - weight);
  const size_t leading = shape.size() - 2;
  if (rank != shape.size() && rank != shape.size() + 1) return std::nullopt;
  for (size_t d = 0; d < leading; ++d) {
    if (node.size(1 - weight, static_cast<int64_t>(rank - shape.size() + d)) != shape[d]) return std::nullopt;
  }
  const auto matrix = shape.begin() + static_cast<int64_t>(leading);
  return MatrixStack{{shape.begin(), matrix}, matrix[0], matrix[1]};
}

/// [count * columns, rows, 1]
Tensor with_matrices_transposed(const Tensor& tensor, const MatrixStack& stack) {
  Tensor result(DType::kFloat32, {stack.count() * stack.columns, stack.rows, 1});
  const auto from = tensor.values<float>();
  const auto to = result.values<float>();
  const int64_t size = stack.rows * stack.columns;
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    const int64_t place = i / size * size + i % stack.columns * stack.rows + i % size / stack.columns;
    to[static_cast<size_t>(place)] = from[static_cast<size_t>(i)];
  }
  return result;
}

/// A stack of matrices is a convolution of one position whose groups are the matrices: [N, ..., in,
/// positions] becomes [N, groups * in, positions].
NodeInput times_stack(NodeImport& node, size_t weight, const MatrixStack& stack) {
  const bool is_left = weight == 0;
  const bool has_batch = node.rank(1 - weight) == stack.leading.size() + 3;
  const int64_t in = is_left ? stack.columns : stack.rows;
  const int64_t out = is_left ? stack.rows : stack.columns;
  const auto reshaped = [&](const NodeInput& x, const Shape& shape) {
    return node.add("dynamic_reshape", {x, NodeImport::list_of(shape)}, {{"allow_zero", false}});
  };
  NodeInput x = node.input(1 - weight);
  if (!is_left) x = with_last_exchanged(node, x);
  x = reshaped(x, {has_batch ? 0 : 1, stack.count() * in, -1});
  ParameterRef matrices =
      is_left ? node.reshaped_parameter(weight, {stack.count() * out, in, 1})
              : NodeImport::parameter(with_matrices_transposed(*node.constant(weight), stack));
  x = node.add("conv1d", {x}, {{"groups", stack.count()}}, {{"weight", std::move(matrices)}});
  Shape result = stack.leading;
  if (has_batch) result.insert(result.begin(), 0);
  result.insert(result.end(), {out, -1});
  x = reshaped(x, result);
  return is_left ? x : with_last_exchanged(node, x);
}

/// x W of W [in, out] or [in].
NodeInput times_from_right(NodeImport& node, const Shape& shape) {
  const bool is_vector = shape.size() == 1;
  const bool is_given = node.constant(1)->rank() == 2;
  ParameterRef matrix = is_vector  ? node.reshaped_parameter(1, {1, shape[0]})
                        : is_given ? node.transposed_parameter(1)
                                   : NodeImport::parameter(transposed(node.constant(1)->reshaped(shape), 1));
  NodeInput y = node.add("linear", {node.input(0)}, {}, {{"weight", std::move(matrix)}});
  return is_vector ? node.add("squeeze", {y, NodeImport::list_of({-1})}) : y;
}

/// W x of W [out, in] or [in], and x [..., in, positions] or [in]. A linear layer sums over the last
/// dimension; a batch [N, in, positions] is the input of a convolution with windows of one position.
NodeInput times_from_left(NodeImport& node, const Shape& shape) {
  constexpr size_t kBatchOfMatrices = 3;
  const bool is_vector = shape.size() == 1;
  const size_t rank = node.rank(1);
  Shape weight = is_vector ? Shape{1, shape[0]} : shape;
  if (rank == kBatchOfMatrices) weight.push_back(1);
  ParameterRef matrix = node.reshaped_parameter(0, weight);
  NodeInput y = node.input(1);
  if (rank > 1 && rank != kBatchOfMatrices) y = with_last_exchanged(node, y);
  y = node.add(rank == kBatchOfMatrices ? "conv1d" : "linear", {y}, {}, {{"weight", std::move(matrix)}});
  if (rank > 1 && rank != kBatchOfMatrices) y = with_last_exchanged(node, y);
  return is_vector ? node.add("squeeze", {y, NodeImport::list_of({rank == 1 ? -1 : -2})}) : y;
}

/// Nothing where no factor is the weight of a layer.
std::optional<NodeInput> product_layer(NodeImport& node) {
  for (const size_t weight : {size_t{1}, size_t{0}}) {
    if (!is_layer(node, weight)) continue;
    const Shape shape = factor_shape(node, weight);
    if (shape.empty()) continue;
    // Where only one product is summed, as in angles of rotary positions, both factors are alike.
    const bool is_sum = weight == 0 ? shape.back() > 1 : shape[shape.size() < 2 ? 0 : shape.size() - 2] > 1;
    if (shape.size() <= 2 && weight == 1) return times_from_right(node, shape);
    if (!is_sum) continue;
    if (shape.size() <= 2) return times_from_left(node, shape);
    const auto stack = node.has_rounding(weight) ? std::nullopt : matrix_stack(node, weight);
    if (stack) return times_stack(node, weight, *stack);
  }
  return std::nullopt;
}

/// A layer where one factor is constant. Vectors become matrices on the way, as numpy has it.
void convert_matmul(NodeImport& node) {
  if (const auto layer = product_layer(node)) return node.set_output(0, *layer);
  NodeInput a = node.input(0);
  NodeInput b = node.input(1);
  const bool row = node.rank(0) == 1;
  const bool column = node.rank(1) == 1;
  if (row) a = node.add("unsqueeze", {a, NodeImport::list_of({0})});
  if (column) b = node.add("unsqueeze", {b, NodeImport::list_of({1})});
  NodeInput result = matrix_product(node, a, b);
  if (column) result = node.add("squeeze", {result, NodeImport::list_of({-1})});
  if (row) result = node.add("squeeze", {result, NodeImport::list_of({column ? -1 : -2})});
  node.set_output(0, result);
}

}  // namespace

NodeInput matrix_product(NodeImport& node, const NodeInput& a, const NodeInput& b) {
  if (is_floating_point(node.type_of(a).dtype)) return node.add("matmul", {a, b});
  const NodeInput rows = node.add("unsqueeze", {a, NodeImport::list_of({-1})});
  const NodeInput columns = node.add("unsqueeze", {b, NodeImport::list_of({-3})});
  return node.add("sum", {node.add("mul", {rows, columns}), NodeImport::list_of({-2})});
}

OnnxConverterList fused_layer_converters() {
  return {{"FusedConv", convert_fused_conv},
          {"FusedGemm", convert_fused_gemm},
          {"FusedMatMul", convert_fused_matmul},
          {"TransposeMatMul", convert_fused_matmul}};
}

OnnxConverterList layer_converters() {
  return {
      {"Conv", convert_conv},
      {"ConvTranspose", convert_transposed},
      {"Gemm", convert_gemm},
      {"MatMul", convert_matmul},
  };
}

}  // namespace detent

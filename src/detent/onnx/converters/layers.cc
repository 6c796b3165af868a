#include <algorithm>
#include <numeric>

#include "detent/core/error.h"
#include "detent/onnx/converters/converters.h"
#include "detent/onnx/converters/windows.h"

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

void convert_conv(NodeImport& node) {
  const Shape weight = node.shape(1);
  const ImportedWindow window = imported_window(node, spatial(weight));
  if (window.kernel != spatial(weight))
    fail("kernel_shape {} and a weight of shape {}", shape_text(window.kernel), shape_text(weight));
  const NodeInput input = window.is_symmetric() ? node.input(0) : with_border(node, window, node.input(0), 0);
  Table attributes = convolution_attributes(node, window);
  const size_t dims = window.kernel.size();
  if (dims <= 3 && has_constant_weights(node)) {
    node.set_output(0, node.add(fmt::format("conv{}d", dims), {input}, std::move(attributes),
                                weight_and_bias(node, node.has_input(2))));
    return;
  }
  std::vector<NodeInput> inputs = {input, node.input(1)};
  if (node.has_input(2)) inputs.push_back(node.input(2));
  node.set_output(0, node.add("convolution", std::move(inputs), std::move(attributes)));
}

/// The border that is cut from each side of the result, and what is added behind it.
struct TransposedBorder {
  std::vector<int64_t> before;
  std::vector<int64_t> behind;
  std::vector<int64_t> extra;
};

/// `output_shape` is what the border follows from, where it is given; so does auto_pad.
TransposedBorder transposed_border(const NodeImport& node, const ImportedWindow& window) {
  const size_t dims = window.kernel.size();
  TransposedBorder border{window.before, window.behind,
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
    if (!size) node.refuse(fmt::format("output_shape where the size of dimension {} is open", i + 2));
    const int64_t target = wanted.empty() ? *size * window.stride[i] : wanted[i];
    const int64_t total = window.stride[i] * (*size - 1) + border.extra[i] +
                          (window.kernel[i] - 1) * window.dilation[i] + 1 - target;
    // What a larger result has more lies behind, as in ONNX Runtime; ONNX does not say where.
    border.before[i] = std::max<int64_t>(automatic == "SAME_UPPER" ? total / 2 : total - total / 2, 0);
    border.behind[i] = total - border.before[i];
  }
  return border;
}

/// The bias, input 2, for [N, C, ...] of so many spatial dimensions.
NodeInput bias_along_channels(NodeImport& node, size_t dims) {
  std::vector<int64_t> added(dims);
  std::iota(added.begin(), added.end(), 1);
  return node.add("unsqueeze", {node.input(2), NodeImport::list_of(added)});
}

/// What libtorch's layer cannot cut, as its border is the same on both sides and not negative, a pad or slice
/// does afterwards. The bias comes behind that where it adds positions.
void convert_transposed(NodeImport& node) {
  const Shape weight = node.shape(1);
  const ImportedWindow window = imported_window(node, spatial(weight));
  TransposedBorder border = transposed_border(node, window);
  const size_t dims = window.kernel.size();
  std::vector<int64_t> padding(dims);
  for (size_t i = 0; i < dims; ++i)
    padding[i] = std::max<int64_t>(std::min(border.before[i], border.behind[i]), 0);
  Table attributes = {{"stride", Value(window.stride)},
                      {"padding", Value(padding)},
                      {"output_padding", Value(border.extra)},
                      {"dilation", Value(window.dilation)},
                      {"groups", node.integer("group", 1)}};
  std::vector<int64_t> before(dims);
  std::vector<int64_t> behind(dims);
  std::ranges::transform(padding, border.before, before.begin(), std::minus());
  std::ranges::transform(padding, border.behind, behind.begin(), std::minus());
  const auto adds_some = [](int64_t size) { return size > 0; };
  const bool adds = std::ranges::any_of(before, adds_some) || std::ranges::any_of(behind, adds_some);
  const bool has_bias = node.has_input(2) && !adds;
  NodeInput result;
  if (dims == 2 && has_constant_weights(node)) {
    result =
        node.add("convtranspose2d", {node.input(0)}, std::move(attributes), weight_and_bias(node, has_bias));
  } else {
    attributes["transposed"] = true;
    std::vector<NodeInput> inputs = {node.input(0), node.input(1)};
    if (has_bias) inputs.push_back(node.input(2));
    result = node.add("convolution", std::move(inputs), std::move(attributes));
  }
  const std::vector<int64_t> none(dims, 0);
  if (before != none || behind != none)
    result = node.add("dynamic_pad", {result, spatial_borders(before, behind)});
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

/// alpha A B + beta C: a linear layer where B and C are constant.
void convert_gemm(NodeImport& node) {
  const auto alpha = static_cast<float>(node.number("alpha", 1.0));
  const auto beta = static_cast<float>(node.number("beta", 1.0));
  const bool transpose_a = node.integer("transA", 0) != 0;
  const bool transpose_b = node.integer("transB", 0) != 0;
  if (node.rank(0) < 2 || node.rank(1) < 2)
    fail("inputs of {} and {} dimensions, expected matrices", node.rank(0), node.rank(1));
  // Beyond the standard, some tools write batches of matrices.
  const bool is_matrix = node.rank(0) == 2 && node.rank(1) == 2;
  NodeInput a = node.input(0);
  if (transpose_a) a = node.add("transpose", {a}, {{"dim0", -2}, {"dim1", -1}});
  if (is_matrix && has_constant_weights(node)) {
    const Tensor& b = *node.constant(1);
    const int64_t out = b.dim(transpose_b ? 0 : 1);
    const bool has_bias = node.has_input(2);
    const std::optional<ParameterRef> bias = has_bias ? gemm_bias(node, beta, out) : std::nullopt;
    if (bias || !has_bias) {
      NodeImport::Parameters parameters;
      const bool as_given = transpose_b && alpha == 1;
      parameters.emplace_back(
          "weight", as_given ? node.parameter(1)
                    : alpha == 1
                        ? node.transposed_parameter(1)
                        : NodeImport::parameter(transpose_b ? scaled(b, alpha) : transposed(b, alpha)));
      if (bias) parameters.emplace_back("bias", *bias);
      node.set_output(0, node.add("linear", {a}, {}, std::move(parameters)));
      return;
    }
  }
  NodeInput b = node.input(1);
  if (transpose_b) b = node.add("transpose", {b}, {{"dim0", -2}, {"dim1", -1}});
  NodeInput result = node.add("matmul", {a, b});
  const auto times = [&](NodeInput x, float factor) {
    return factor == 1 ? x
                       : node.add("mul", {std::move(x), NodeImport::number_of(static_cast<double>(factor))});
  };
  result = times(result, alpha);
  if (node.has_input(2)) result = node.add("add", {result, times(node.input(2), beta)});
  node.set_output(0, result);
}

/// A linear layer where the second factor is a constant matrix. Vectors become matrices on the way, as numpy
/// has it.
void convert_matmul(NodeImport& node) {
  const Tensor* weight = node.constant(1);
  if (weight != nullptr && is_float_tensor(*weight) && weight->rank() == 2 && node.rank(0) >= 1 &&
      node.constant(0) == nullptr) {
    NodeImport::Parameters parameters = {{"weight", node.transposed_parameter(1)}};
    node.set_output(0, node.add("linear", {node.input(0)}, {}, std::move(parameters)));
    return;
  }
  NodeInput a = node.input(0);
  NodeInput b = node.input(1);
  const bool row = node.rank(0) == 1;
  const bool column = node.rank(1) == 1;
  if (row) a = node.add("unsqueeze", {a, NodeImport::list_of({0})});
  if (column) b = node.add("unsqueeze", {b, NodeImport::list_of({1})});
  NodeInput result = node.add("matmul", {a, b});
  if (column) result = node.add("squeeze", {result, NodeImport::list_of({-1})});
  if (row) result = node.add("squeeze", {result, NodeImport::list_of({column ? -1 : -2})});
  node.set_output(0, result);
}

void convert_einsum(NodeImport& node) {
  std::vector<NodeInput> inputs;
  for (size_t i = 0; i < node.input_count(); ++i) inputs.push_back(node.input(i));
  node.set_output(0, node.add("einsum", std::move(inputs), {{"equation", node.text("equation", "")}}));
}

}  // namespace

OnnxConverterList layer_converters() {
  return {{"Conv", convert_conv},
          {"ConvTranspose", convert_transposed},
          {"Gemm", convert_gemm},
          {"MatMul", convert_matmul},
          {"Einsum", convert_einsum}};
}

}  // namespace detent

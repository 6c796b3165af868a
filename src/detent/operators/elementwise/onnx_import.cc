#include <algorithm>
#include <limits>
#include <numeric>
#include <string_view>

#include "detent/core/error.h"
#include "detent/graph/traits.h"
#include "detent/operators/layers/onnx_import.h"
#include "detent/operators/onnx_import.h"
#include "detent/operators/onnx_same_operators.h"
#include "detent/operators/quantization/onnx_import.h"

namespace detent {
namespace {

bool is_float(const NodeImport& node, size_t index) { return node.type(index).dtype == DType::kFloat32; }

/// A constant of one element as a number, where another input has at least its dimensions and a type that
/// holds it.
NodeInput operand(NodeImport& node, size_t index) {
  const Tensor* constant = node.constant(index);
  if (constant == nullptr || constant->numel() != 1) return node.input(index);
  for (size_t i = 0; i < node.input_count(); ++i) {
    if (i == index || !node.has_input(i) || node.constant(i) != nullptr) continue;
    if (node.rank(i) < node.rank(index)) continue;
    const bool is_held = is_float(node, i) || node.type(i).dtype == constant->dtype();
    if (is_held) return node.number_or_input(index);
  }
  return node.input(index);
}

constexpr int64_t kBroadcastsAsNumPy = 7;

/// Before opset 7 `axis` is the dimension of the first operand where those of the second begin.
bool is_aligned_by_axis(const NodeImport& node) {
  return node.opset() < kBroadcastsAsNumPy && node.integer("broadcast", 0) != 0 && node.has_attribute("axis");
}

/// The second operand, as numpy broadcasts it.
NodeInput second_operand(NodeImport& node) {
  if (!is_aligned_by_axis(node)) return operand(node, 1);
  const auto rank = static_cast<int64_t>(node.rank(0));
  int64_t axis = node.integer("axis", 0);
  if (axis < 0) axis += rank;
  const int64_t after = rank - axis - static_cast<int64_t>(node.rank(1));
  if (axis < 0 || after < 0) fail("axis {} of {} dimensions for an operand of {}", axis, rank, node.rank(1));
  if (after == 0) return operand(node, 1);
  std::vector<int64_t> added(static_cast<size_t>(after));
  std::iota(added.begin(), added.end(), static_cast<int64_t>(node.rank(1)));
  return node.add("unsqueeze", {node.input(1), NodeImport::list_of(added)});
}

void convert_pair(NodeImport& node, const char* name) {
  node.set_output(0, node.add(name, {operand(node, 0), second_operand(node)}));
}

void convert_same_pair(NodeImport& node) {
  convert_pair(node, std::ranges::find(kSamePairs, std::string_view(node.op()), &SameOperator::onnx)->op);
}

/// Joins any number of inputs one after the other.
template <const char* kName>
NodeInput folded(NodeImport& node) {
  NodeInput result = node.input(0);
  for (size_t i = 1; i < node.input_count(); ++i) result = node.add(kName, {result, node.input(i)});
  return result;
}

template <const char* kName>
void convert_folded(NodeImport& node) {
  node.set_output(0, folded<kName>(node));
}

constexpr char kAdd[] = "add";
constexpr char kMul[] = "mul";
constexpr char kMinimum[] = "minimum";
constexpr char kMaximum[] = "maximum";

void convert_mean(NodeImport& node) {
  const auto count = static_cast<double>(node.input_count());
  node.set_output(0, node.add("div", {folded<kAdd>(node), NodeImport::number_of(count)}));
}

/// Whether the constant holds one number for each channel of the layer's result: [C] where the channels come
/// last, [C, 1, ...] or [1, C, 1, ...] where positions follow them.
bool is_channel_vector(const Tensor& constant, int64_t channels, size_t rank, int64_t channel_axis) {
  Shape shape = constant.shape();
  if (shape.size() > rank) return false;
  shape.insert(shape.begin(), rank - shape.size(), 1);
  const auto axis =
      static_cast<size_t>(channel_axis < 0 ? channel_axis + static_cast<int64_t>(rank) : channel_axis);
  return constant.numel() == channels && shape[axis] == channels;
}

void convert_add(NodeImport& node) {
  if (is_aligned_by_axis(node)) return convert_pair(node, kAdd);
  for (const size_t addend : {size_t{1}, size_t{0}})
    if (const auto layer = layer_with_bias(node, 1 - addend, addend)) return node.set_output(0, *layer);
  convert_pair(node, kAdd);
}

void convert_mul(NodeImport& node) {
  if (const auto layer = dynamic_layer(node)) return node.set_output(0, *layer);
  convert_pair(node, kMul);
}

void convert_mod(NodeImport& node) {
  const char* const op = node.integer("fmod", 0) != 0 ? "fmod" : "remainder";
  node.set_output(0, node.add(op, {operand(node, 0), operand(node, 1)}));
}

/// The result has the type of the base, which a number does not say.
void convert_pow(NodeImport& node) {
  const bool is_of_floats = is_float(node, 0) && is_float(node, 1);
  const NodeInput base = is_of_floats ? operand(node, 0) : node.input(0);
  node.set_output(0, node.add("pow", {base, second_operand(node)}));
}

/// The usual constants in float32; with others gamma times elu.
void convert_selu(NodeImport& node) {
  constexpr float kAlpha = 1.67326319217681884765625F;
  constexpr float kGamma = 1.05070102214813232421875F;
  constexpr int64_t kExactConstants = 6;
  const bool is_exact = node.opset() >= kExactConstants;
  const double alpha = node.number("alpha", static_cast<double>(is_exact ? kAlpha : 1.6732F));
  const double gamma = node.number("gamma", static_cast<double>(is_exact ? kGamma : 1.0507F));
  if (alpha == static_cast<double>(kAlpha) && gamma == static_cast<double>(kGamma))
    return node.set_output(0, node.add("selu", {node.input(0)}));
  const NodeInput x = node.add("elu", {node.input(0)}, {{"alpha", alpha}});
  node.set_output(0, node.add("mul", {x, NodeImport::number_of(gamma)}));
}

/// x sigmoid(alpha x)
void convert_swish(NodeImport& node) {
  const NodeInput x = node.input(0);
  const double alpha = node.number("alpha", 1);
  if (alpha == 1) return node.set_output(0, node.add("silu", {x}));
  const NodeInput scaled = node.add("mul", {x, NodeImport::number_of(alpha)});
  node.set_output(0, node.add("mul", {x, node.add("sigmoid", {scaled})}));
}

/// a sigmoid(alpha a) b
void convert_swiglu(NodeImport& node) {
  const NodeInput gate = node.input(0);
  const double alpha = node.number("alpha", 1);
  NodeInput part;
  if (alpha == 1) {
    part = node.add("silu", {gate});
  } else {
    const NodeInput scaled = node.add("mul", {gate, NodeImport::number_of(alpha)});
    part = node.add("mul", {gate, node.add("sigmoid", {scaled})});
  }
  node.set_output(0, node.add("mul", {part, node.input(1)}));
}

/// Before opset 7 a list of slopes is one of the channels.
void convert_prelu(NodeImport& node) {
  NodeInput slope = node.input(1);
  const bool is_of_channels = node.opset() < kBroadcastsAsNumPy && node.rank(1) == 1 && node.rank(0) > 2;
  if (is_of_channels && node.size(1, 0) != 1) {
    std::vector<int64_t> added(node.rank(0) - 2);
    std::iota(added.begin(), added.end(), 1);
    slope = node.add("unsqueeze", {slope, NodeImport::list_of(added)});
  }
  node.set_output(0, node.add("prelu", {node.input(0), slope}));
}

/// Bounds: attributes before opset 11, then inputs, of which each may be absent: it is the end of the type
/// then, which infinities are cut to.
struct Bounds {
  NodeInput low = NodeInput::absent();
  NodeInput high = NodeInput::absent();
};

Bounds bounds_of(NodeImport& node) {
  constexpr int64_t kBoundsAreInputs = 11;
  Bounds bounds;
  if (node.opset() < kBoundsAreInputs) {
    if (node.has_attribute("min")) bounds.low = NodeImport::number_of(node.number("min", 0));
    if (node.has_attribute("max")) bounds.high = NodeImport::number_of(node.number("max", 0));
    return bounds;
  }
  if (node.has_input(1)) bounds.low = operand(node, 1);
  if (node.has_input(2)) bounds.high = operand(node, 2);
  return bounds;
}

/// The largest number of a type of floats, in float32.
float largest(DType dtype) {
  constexpr float kHalf = 65504;
  constexpr float kBrain = 0x1.FEp127F;
  if (dtype == DType::kFloat16) return kHalf;
  return dtype == DType::kBFloat16 ? kBrain : std::numeric_limits<float>::max();
}

bool is_number(const NodeInput& input, double value) {
  double scratch = 0;
  const double* number = input.is_constant() ? input.constant.number(scratch) : nullptr;
  return number != nullptr && *number == value;
}

void convert_clip(NodeImport& node) {
  const Bounds bounds = bounds_of(node);
  const NodeInput x = node.input(0);
  const bool none_above =
      bounds.high.is_absent() || is_number(bounds.high, std::numeric_limits<float>::max());
  if (is_float(node, 0) && is_number(bounds.low, 0) && none_above)
    return node.set_output(0, node.add("relu", {x}));
  constexpr double kSix = 6;
  if (is_float(node, 0) && is_number(bounds.low, 0) && is_number(bounds.high, kSix))
    return node.set_output(0, node.add("relu6", {x}));
  if (is_float(node, 0)) {
    const auto or_end = [](const NodeInput& bound, float end) {
      return bound.is_absent() ? NodeImport::number_of(static_cast<double>(end)) : bound;
    };
    const float end = largest(node.float_type(0));
    return node.set_output(0, node.add("clamp", {x, or_end(bounds.low, -end), or_end(bounds.high, end)}));
  }
  NodeInput result = x;
  if (!bounds.low.is_absent()) result = node.add("maximum", {result, bounds.low});
  if (!bounds.high.is_absent()) result = node.add("minimum", {result, bounds.high});
  if (result == x) return node.pass_on(0);
  node.set_output(0, result);
}

constexpr int64_t kSoftmaxOfOneAxis = 13;

/// Before opset 13 over all dimensions from the axis on.
template <const char* kName>
void convert_softmax(NodeImport& node) {
  const auto rank = static_cast<int64_t>(node.rank(0));
  int64_t axis = node.integer("axis", node.opset() < kSoftmaxOfOneAxis ? 1 : -1);
  if (axis < 0) axis += rank;
  if (node.opset() >= kSoftmaxOfOneAxis || axis == rank - 1)
    return node.set_output(0, node.add(kName, {node.input(0)}, {{"dim", axis}}));
  node.set_output(0, as_rows_from(node, node.input(0), axis, [&](const NodeInput& rows) {
                    return node.add(kName, {rows}, {{"dim", -1}});
                  }));
}

constexpr char kSoftmax[] = "softmax";
constexpr char kLogSoftmax[] = "log_softmax";

/// 1 at the largest element, 0 elsewhere; before opset 13 of all dimensions from the axis on.
void convert_hardmax(NodeImport& node) {
  const bool is_of_rows = node.opset() < kSoftmaxOfOneAxis;
  const auto rank = static_cast<int64_t>(node.rank(0));
  int64_t axis = node.integer("axis", is_of_rows ? 1 : -1);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) fail("axis {} of {} dimensions", axis, rank);
  int64_t size = 1;
  for (int64_t d = axis; d < (is_of_rows ? rank : axis + 1); ++d) {
    const auto known = node.size(0, d);
    if (!known) node.refuse("an axis of open size");
    size *= *known;
  }
  const auto hardmax = [&](const NodeInput& x, int64_t dim) {
    const NodeInput place = node.add("argmax", {x}, {{"dim", dim}, {"keepdim", false}});
    const NodeInput values = node.constant_of(Tensor::from({2}, std::vector<float>{0, 1}));
    return node.add("one_hot", {place, NodeImport::integer_of(size), values}, {{"dim", dim}});
  };
  if (!is_of_rows || axis == rank - 1) return node.set_output(0, hardmax(node.input(0), axis));
  node.set_output(
      0, as_rows_from(node, node.input(0), axis, [&](const NodeInput& rows) { return hardmax(rows, -1); }));
}

void convert_where(NodeImport& node) {
  node.set_output(0, node.add("where", {node.input(0), operand(node, 1), operand(node, 2)}));
}

/// (x < -lambd) (x + bias) + (x > lambd) (x - bias)
void convert_shrink(NodeImport& node) {
  const double bias = node.number("bias", 0);
  const double lambda = node.number("lambd", 0.5);
  const NodeInput x = node.input(0);
  const NodeInput low = node.add("lt", {x, NodeImport::number_of(-lambda)});
  const NodeInput high = node.add("gt", {x, NodeImport::number_of(lambda)});
  const NodeInput raised = node.add("add", {x, NodeImport::number_of(bias)});
  const NodeInput lowered = node.add("sub", {x, NodeImport::number_of(bias)});
  const NodeInput upper = node.add("where", {high, lowered, NodeImport::number_of(0)});
  node.set_output(0, node.add("where", {low, raised, upper}));
}

}  // namespace

std::optional<NodeInput> layer_with_bias(NodeImport& node, size_t product, size_t addend) {
  const Tensor* constant = node.constant(addend);
  Node* layer = constant == nullptr ? nullptr : node.producer(product);
  if (layer == nullptr || node.reader_count(product) != 1 || constant->dtype() != DType::kFloat32)
    return std::nullopt;
  const WeightedSum* sum = trait<WeightedSum>(*layer);
  if (sum == nullptr || layer->find_parameter("bias") != nullptr) return std::nullopt;
  const Node& giver = *layer;
  const Shape& weight = giver.find_parameter("weight")->tensor.shape();
  const int64_t groups = sum->transposed ? integer_attribute(giver, "groups") : 1;
  const int64_t channels = weight[static_cast<size_t>(sum->output_axis())] * groups;
  if (!is_channel_vector(*constant, channels, node.rank(product), sum->channel_axis)) return std::nullopt;
  constexpr std::string_view kBias = ".bias";
  const std::string& name = node.input_name(addend);
  if (name.ends_with(kBias)) layer->target = name.substr(0, name.size() - kBias.size());
  node.add_parameter(*layer, "bias", node.reshaped_parameter(addend, {channels}));
  layer->source_names.clear();
  return NodeInput::of(layer->name);
}

NodeInput added(NodeImport& node, size_t product, size_t addend) {
  const auto layer = layer_with_bias(node, product, addend);
  return layer ? *layer : node.add("add", {node.input(product), node.input(addend)});
}

NodeInput as_rows_from(NodeImport& node, const NodeInput& x, int64_t axis,
                       const std::function<NodeInput(const NodeInput&)>& of_rows) {
  const NodeInput shape = node.add("shape_of", {x});
  return node.add("dynamic_reshape", {of_rows(node.add("flatten", {x}, {{"start_dim", axis}})), shape});
}

OnnxConverterList elementwise_converters() {
  OnnxConverterList list = {{"Selu", convert_selu},
                            {"Swish", convert_swish},
                            {"SwiGLU", convert_swiglu},
                            {"PRelu", convert_prelu},
                            {"Clip", convert_clip},
                            {"Softmax", convert_softmax<kSoftmax>},
                            {"LogSoftmax", convert_softmax<kLogSoftmax>},
                            {"Hardmax", convert_hardmax},
                            {"Shrink", convert_shrink},
                            {"Add", convert_add},
                            {"Mul", convert_mul},
                            {"Pow", convert_pow},
                            {"Mod", convert_mod},
                            {"Min", convert_folded<kMinimum>},
                            {"Max", convert_folded<kMaximum>},
                            {"Sum", convert_folded<kAdd>},
                            {"Mean", convert_mean},
                            {"Where", convert_where}};
  for (const SameOperator& same : kSamePairs) list.emplace_back(same.onnx, convert_same_pair);
  return list;
}

}  // namespace detent

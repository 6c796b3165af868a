#include <limits>

#include "detent/core/error.h"
#include "detent/operators/onnx_import.h"

namespace detent {
namespace {

// Experimental operators of ONNX 1.0 to 1.4, which exporters of that time write and ONNX Runtime computes:
// https://github.com/onnx/onnx/blob/v1.4.1/docs/Operators.md

NodeInput times(NodeImport& node, const NodeInput& x, double factor) {
  return factor == 1 ? x : node.add("mul", {x, NodeImport::number_of(factor)});
}

/// scale x + bias of each channel
void convert_image_scaler(NodeImport& node) {
  const std::vector<double> numbers = node.numbers("bias");
  Tensor bias(DType::kFloat32, {std::ssize(numbers), 1, 1});
  for (size_t i = 0; float& value : bias.values<float>()) value = static_cast<float>(numbers[i++]);
  const NodeInput scaled = times(node, node.input(0), node.number("scale", 1));
  node.set_output(0, numbers.empty() ? scaled : node.add("add", {scaled, node.constant_of(bias)}));
}

void convert_scale(NodeImport& node) {
  node.set_output(0, times(node, node.input(0), node.number("scale", 1)));
}

/// alpha x + beta
void convert_affine(NodeImport& node) {
  const NodeInput scaled = times(node, node.input(0), node.number("alpha", 1));
  node.set_output(0, node.add("add", {scaled, NodeImport::number_of(node.number("beta", 0))}));
}

/// Without a border of left, top, right and bottom; where `scale` gives height and width, that many positions
/// from left and top on.
void convert_crop(NodeImport& node) {
  constexpr size_t kSides = 4;
  constexpr int64_t kMostPositions = int64_t{1} << 31;
  const std::vector<int64_t> border = node.integers("border", {});
  const std::vector<int64_t> size = node.integers("scale", {});
  if (border.size() != kSides) fail("border has {} numbers, expected 4", border.size());
  if (!size.empty() && size.size() != 2) fail("scale has {} numbers, expected 2", size.size());
  if (node.rank(0) != kSides) fail("an input of {} dimensions, expected 4", node.rank(0));
  for (const std::vector<int64_t>& numbers : {border, size}) {
    for (const int64_t number : numbers)
      if (number < 0 || number > kMostPositions)
        fail("border {} and scale {}", shape_text(border), shape_text(size));
  }
  const auto end = [&](size_t dim, int64_t begin, int64_t after) {
    if (!size.empty()) return begin + size[dim];
    return after == 0 ? std::numeric_limits<int64_t>::max() : -after;
  };
  node.set_output(0,
                  node.add("dynamic_slice",
                           {node.input(0), NodeImport::list_of({border[1], border[0]}),
                            NodeImport::list_of({end(0, border[1], border[3]), end(1, border[0], border[2])}),
                            NodeImport::list_of({2, 3})}));
}

/// alpha tanh(beta x)
void convert_scaled_tanh(NodeImport& node) {
  const NodeInput scaled = times(node, node.input(0), node.number("beta", 1));
  node.set_output(0, times(node, node.add("tanh", {scaled}), node.number("alpha", 1)));
}

/// alpha ln(exp(beta x) + 1)
void convert_parametric_softplus(NodeImport& node) {
  const NodeInput scaled = times(node, node.input(0), node.number("beta", 1));
  node.set_output(0, times(node, node.add("softplus", {scaled}), node.number("alpha", 1)));
}

}  // namespace

OnnxConverterList early_converters() {
  return {{"ImageScaler", convert_image_scaler},
          {"Affine", convert_affine},
          {"Scale", convert_scale},
          {"Crop", convert_crop},
          {"ScaledTanh", convert_scaled_tanh},
          {"ParametricSoftplus", convert_parametric_softplus}};
}

}  // namespace detent

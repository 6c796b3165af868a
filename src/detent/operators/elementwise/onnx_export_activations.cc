#include <cmath>
#include <numbers>

#include "detent/core/error.h"
#include "detent/operators/onnx_export.h"

namespace detent {
namespace {

constexpr int64_t kHardSwishSince = 14;
constexpr int64_t kMishSince = 18;
constexpr int64_t kGeluSince = 20;

void export_relu6(NodeExport& node) {
  constexpr double kSix = 6;
  node.emit("Clip", {node.input(0), node.number_of(0), node.number_of(kSix)});
}

void export_silu(NodeExport& node) {
  const std::string input = node.input(0);
  node.emit("Mul", {input, node.add("Sigmoid", {input})});
}

void export_hardswish(NodeExport& node) {
  const std::string input = node.input(0);
  if (node.opset() >= kHardSwishSince) return node.emit("HardSwish", {input});
  const std::string gate = node.add("HardSigmoid", {input}, {{"alpha", 1.0 / 6}, {"beta", 0.5}});
  node.emit("Mul", {input, gate});
}

/// log(1 + exp(beta x)) / beta, or x where beta x is above the threshold.
void export_softplus(NodeExport& node) {
  const double beta = node.number("beta");
  const double threshold = node.number("threshold");
  constexpr double kFromWhereItIsX = 17;  // in float32
  const std::string input = node.input(0);
  if (beta == 1 && threshold >= kFromWhereItIsX) return node.emit("Softplus", {input});
  const std::string steep = node.add("Mul", {input, node.number_of(beta)});
  const std::string smooth = node.add("Div", {node.add("Softplus", {steep}), node.number_of(beta)});
  if (threshold >= kFromWhereItIsX) return node.emit("Identity", {smooth});
  const std::string is_beyond = node.add("Greater", {steep, node.number_of(threshold)});
  node.emit("Where", {is_beyond, input, smooth});
}

void export_mish(NodeExport& node) {
  const std::string input = node.input(0);
  if (node.opset() >= kMishSince) return node.emit("Mish", {input});
  node.emit("Mul", {input, node.add("Tanh", {node.add("Softplus", {input})})});
}

/// x / 2 (1 + erf(x / sqrt 2)), or x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))); halved first, so that
/// nothing between is larger than x.
void export_gelu(NodeExport& node) {
  const std::string input = node.input(0);
  const bool is_exact = node.choice("approximate") == "none";
  if (node.opset() >= kGeluSince)
    return node.emit("Gelu", {input}, {{"approximate", node.choice("approximate")}});
  std::string inner;
  if (is_exact) {
    inner = node.add("Erf", {node.add("Div", {input, node.number_of(std::numbers::sqrt2)})});
  } else {
    constexpr double kCubic = 0.044715;
    const std::string cube = node.add("Mul", {node.add("Mul", {input, input}), input});
    const std::string bent = node.add("Add", {input, node.add("Mul", {cube, node.number_of(kCubic)})});
    inner = node.add("Tanh", {node.add("Mul", {bent, node.number_of(std::sqrt(2 / std::numbers::pi))})});
  }
  const std::string gate = node.add("Add", {inner, node.number_of(1)});
  node.emit("Mul", {node.add("Mul", {input, node.number_of(0.5)}), gate});
}

/// ONNX Runtime fuses Softmax between quantized values into QLinearSoftmax, whose exponentials come from a
/// table. After a Sum of one value it leaves it as it is written.
void export_softmax(NodeExport& node) {
  std::string input = node.input(0);
  if (has_integers(node.style()) && node.is_rounded(input)) input = node.add("Sum", {input});
  node.emit("Softmax", {input}, {{"axis", node.integer("dim")}});
}

}  // namespace

OnnxExporterList activation_exporters() {
  return {{"relu6", export_relu6},       {"silu", export_silu}, {"hardswish", export_hardswish},
          {"softplus", export_softplus}, {"mish", export_mish}, {"gelu", export_gelu},
          {"softmax", export_softmax}};
}

}  // namespace detent

#include "detent/integer/unary_functions.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "detent/graph/operators.h"

namespace detent {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

double selu(double x) {
  constexpr double kAlpha = 1.6732632423543772848170429916717;
  constexpr double kScale = 1.0507009873554804934193349852946;
  return kScale * (x > 0 ? x : kAlpha * std::expm1(x));
}

std::function<double(double)> gelu(const Node& node) {
  if (choice_attribute(node, "approximate") == "none") {
    return [](double x) { return x * 0.5 * std::erfc(-x / std::numbers::sqrt2); };
  }
  return [](double x) {
    const double inner = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
    return 0.5 * x * (1 + std::tanh(inner));
  };
}

std::function<double(double)> softplus(const Node& node) {
  const double beta = number_attribute(node, "beta");
  const double threshold = number_attribute(node, "threshold");
  return [=](double x) { return beta * x > threshold ? x : std::log1p(std::exp(beta * x)) / beta; };
}

}  // namespace

std::function<double(double)> unary_function(const Node& node) {
  if (node.op == "relu") return [](double x) { return std::max(x, 0.0); };
  if (node.op == "relu6") return [](double x) { return std::clamp(x, 0.0, 6.0); };
  if (node.op == "selu") return selu;
  if (node.op == "tanh") return [](double x) { return std::tanh(x); };
  if (node.op == "sigmoid") return sigmoid;
  if (node.op == "silu") return [](double x) { return x * sigmoid(x); };
  if (node.op == "hardswish") return [](double x) { return x * std::clamp(x + 3, 0.0, 6.0) / 6; };
  if (node.op == "softsign") return [](double x) { return x / (1 + std::fabs(x)); };
  if (node.op == "gelu") return gelu(node);
  if (node.op == "softplus") return softplus(node);
  return {};
}

}  // namespace detent

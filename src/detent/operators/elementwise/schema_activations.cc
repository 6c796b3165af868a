#include <algorithm>
#include <cmath>
#include <numbers>

#include "detent/operators/schema.h"

namespace detent {
namespace {

Operand infer_along_dim(const Node& node, std::span<const Operand> inputs) {
  dimension_index(integer_attribute(node, "dim"), tensor_shape(inputs, 0).size());
  return same_shape(node, inputs);
}

OperatorSchema clamp(const char* name, const char* help, Clamp range) {
  OperatorSchema schema =
      unary(name, help, [range](double x) { return std::clamp(x, range.low, range.high); });
  std::get<Unary>(schema.trait).clamp = range;
  return schema;
}

Unary::Function gelu_function(const Node& node) {
  if (choice_attribute(node, "approximate") == "none") {
    return [](double x) { return x * 0.5 * std::erfc(-x / std::numbers::sqrt2); };
  }
  return [](double x) {
    const double inner = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
    return 0.5 * x * (1 + std::tanh(inner));
  };
}

OperatorSchema gelu() {
  return unary("gelu", "x * P(N(0, 1) < x) (Hendrycks and Gimpel 2016, arXiv:1606.08415)", gelu_function,
               {{.name = "approximate",
                 .kind = AttributeKind::kChoice,
                 .default_value = "none",
                 .help = "tanh: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))",
                 .choices = {"none", "tanh"}}});
}

Unary::Function softplus_function(const Node& node) {
  const double beta = number_attribute(node, "beta");
  const double threshold = number_attribute(node, "threshold");
  return [=](double x) { return beta * x > threshold ? x : std::log1p(std::exp(beta * x)) / beta; };
}

Operand infer_softplus(const Node& node, std::span<const Operand> inputs) {
  const double beta = number_attribute(node, "beta");
  if (!(beta > 0)) fail("attribute \"beta\": got {}, expected a number above 0", beta);
  return same_shape(node, inputs);
}

OperatorSchema softplus() {
  OperatorSchema schema =
      unary("softplus", "log(1 + exp(beta x)) / beta", softplus_function,
            {{"beta", AttributeKind::kNumber, 1.0, "sharpness, above 0"},
             {"threshold", AttributeKind::kNumber, 20.0, "x itself where beta x is above this"}});
  schema.infer = infer_softplus;
  return schema;
}

AttributeSchema number(const char* name, double value, const char* help) {
  return {name, AttributeKind::kNumber, value, help};
}

/// max(x, 0) + min(slope x, 0)
OperatorSchema leaky_relu() {
  return unary("leaky_relu", "x, or negative_slope x below 0",
               [](const Node& node) -> Unary::Function {
                 return [slope = number_attribute(node, "negative_slope")](double x) {
                   return x < 0 ? slope * x : x;
                 };
               },
               {number("negative_slope", 0.01, "slope below 0")});
}

OperatorSchema elu() {
  return unary("elu", "x, or alpha (exp(x) - 1) below 0 (Clevert et al. 2015, arXiv:1511.07289)",
               [](const Node& node) -> Unary::Function {
                 return [alpha = number_attribute(node, "alpha")](double x) {
                   return x > 0 ? x : alpha * std::expm1(x);
                 };
               },
               {number("alpha", 1.0, "minus the limit at minus infinity")});
}

Operand infer_celu(const Node& node, std::span<const Operand> inputs) {
  if (number_attribute(node, "alpha") == 0) fail("attribute \"alpha\": got 0, expected another number");
  return same_shape(node, inputs);
}

OperatorSchema celu() {
  OperatorSchema schema =
      unary("celu", "x, or alpha (exp(x / alpha) - 1) below 0 (Barron 2017, arXiv:1704.07483)",
            [](const Node& node) -> Unary::Function {
              return [alpha = number_attribute(node, "alpha")](double x) {
                return x > 0 ? x : alpha * std::expm1(x / alpha);
              };
            },
            {number("alpha", 1.0, "minus the limit at minus infinity")});
  schema.infer = infer_celu;
  return schema;
}

OperatorSchema hardsigmoid() {
  constexpr double kSlope = 1.0 / 6;
  return unary("hardsigmoid", "min(max(alpha x + beta, 0), 1)",
               [](const Node& node) -> Unary::Function {
                 return [alpha = number_attribute(node, "alpha"), beta = number_attribute(node, "beta")](
                            double x) { return std::clamp(alpha * x + beta, 0.0, 1.0); };
               },
               {number("alpha", kSlope, "slope in the middle"), number("beta", 0.5, "value at 0")});
}

OperatorSchema thresholded_relu() {
  return unary("thresholded_relu", "x, or 0 where x <= alpha (Konda et al. 2014, arXiv:1402.3337)",
               [](const Node& node) -> Unary::Function {
                 return [alpha = number_attribute(node, "alpha")](double x) { return x > alpha ? x : 0; };
               },
               {number("alpha", 1.0, "the threshold")});
}

OperatorSchema softmax(const char* name, const char* help, bool log) {
  return {.name = name,
          .help = help,
          .attributes = {{"dim", AttributeKind::kInteger, -1, "dimension whose elements sum to 1"}},
          .infer = infer_along_dim,
          .trait = Softmax{log},
          .quantizable = true};
}

}  // namespace

OperatorSchema unary(const char* name, const char* help, std::function<Unary::Function(const Node&)> function,
                     std::vector<AttributeSchema> attributes) {
  return {.name = name,
          .help = help,
          .mase_type = MaseType::kModuleRelatedFunc,
          .attributes = std::move(attributes),
          .infer = same_shape,
          .takes_open_sizes = true,
          .trait = Unary{std::move(function)},
          .quantizable = true};
}

OperatorSchema unary(const char* name, const char* help, Unary::Function function) {
  return unary(name, help, [function = std::move(function)](const Node&) { return function; });
}

std::vector<OperatorSchema> activation_operators() {
  return {
      clamp("relu", "max(x, 0)", {.low = 0}),
      clamp("relu6", "min(max(x, 0), 6)", {.low = 0, .high = 6}),
      softplus(),
      gelu(),
      leaky_relu(),
      elu(),
      celu(),
      hardsigmoid(),
      thresholded_relu(),
      softmax("softmax", "exp(x) / sum exp(x)", false),
      softmax("log_softmax", "x - log sum exp(x)", true),
  };
}

}  // namespace detent

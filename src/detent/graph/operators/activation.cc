#include "detent/graph/operators/families.h"

namespace detent {
namespace {

Operand infer_along_dim(const Node& node, std::span<const Operand> inputs) {
  dimension_index(integer_attribute(node, "dim"), tensor_shape(inputs, 0).size());
  return same_shape(node, inputs);
}

/// A function of each element by itself.
OperatorSchema unary(const char* name, const char* help, const char* onnx_name) {
  return {.name = name,
          .help = help,
          .mase_type = MaseType::kModuleRelatedFunc,
          .infer = same_shape,
          .onnx_name = onnx_name,
          .quantizable = true};
}

OperatorSchema gelu() {
  OperatorSchema schema =
      unary("gelu", "x * P(N(0, 1) < x) (Hendrycks and Gimpel 2016, arXiv:1606.08415)", "");
  schema.attributes = {{.name = "approximate",
                        .kind = AttributeKind::kChoice,
                        .default_value = "none",
                        .help = "tanh: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))",
                        .choices = {"none", "tanh"}}};
  return schema;
}

Operand infer_softplus(const Node& node, std::span<const Operand> inputs) {
  const double beta = number_attribute(node, "beta");
  if (!(beta > 0)) fail("attribute \"beta\": got {}, expected a number above 0", beta);
  return same_shape(node, inputs);
}

OperatorSchema softplus() {
  OperatorSchema schema = unary("softplus", "log(1 + exp(beta x)) / beta", "Softplus");
  schema.attributes = {{"beta", AttributeKind::kNumber, 1.0, "sharpness, above 0"},
                       {"threshold", AttributeKind::kNumber, 20.0, "x itself where beta x is above this"}};
  schema.infer = infer_softplus;
  return schema;
}

}  // namespace

std::vector<OperatorSchema> activation_operators() {
  const AttributeSchema dim = {"dim", AttributeKind::kInteger, -1, "dimension whose elements sum to 1"};
  return {
      unary("relu", "max(x, 0)", "Relu"),
      unary("relu6", "min(max(x, 0), 6)", "Clip"),
      unary("selu", "1.0507 x, or 1.7581 (exp(x) - 1) below 0 (Klambauer et al. 2017, arXiv:1706.02515)",
            "Selu"),
      unary("tanh", "hyperbolic tangent", "Tanh"),
      unary("sigmoid", "1 / (1 + exp(-x))", "Sigmoid"),
      unary("silu", "x * sigmoid(x)", ""),
      unary("hardswish", "x * min(max(x + 3, 0), 6) / 6 (Howard et al. 2019, arXiv:1905.02244)", "HardSwish"),
      unary("softsign", "x / (1 + |x|)", "Softsign"),
      softplus(),
      gelu(),
      {.name = "softmax",
       .help = "exp(x) / sum exp(x)",
       .attributes = {dim},
       .infer = infer_along_dim,
       .onnx_name = "Softmax",
       .quantizable = true},
      {.name = "log_softmax",
       .help = "x - log sum exp(x)",
       .attributes = {dim},
       .infer = infer_along_dim,
       .onnx_name = "LogSoftmax",
       .quantizable = true},
  };
}

}  // namespace detent

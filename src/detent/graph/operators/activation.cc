#include "detent/graph/operators/families.h"

namespace detent {
namespace {

Operand infer_along_dim(const Node& node, std::span<const Operand> inputs) {
  dimension_index(integer_attribute(node, "dim"), tensor_shape(inputs, 0).size());
  return same_shape(node, inputs);
}

}  // namespace

std::vector<OperatorSchema> activation_operators() {
  const AttributeSchema dim = {"dim", AttributeKind::kInteger, -1, "dimension whose elements sum to 1"};
  return {
      {.name = "relu",
       .help = "max(x, 0)",
       .mase_type = MaseType::kModuleRelatedFunc,
       .infer = same_shape,
       .onnx_name = "Relu",
       .quantizable = true},
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

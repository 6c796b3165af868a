#include "detent/operators/autograd.h"
#include "detent/autograd/torch_tensor.h"
#include "detent/inference/table_layer.h"

namespace detent {
namespace {

/// A step function, whose gradient nothing asks for: tables are made of layers that are trained.
Results evaluate_tables(const Evaluation& e) {
  return to_torch(table_layer_result(e.node, from_torch(e.tensor(0).detach().contiguous())));
}

}  // namespace

EvaluatorList table_evaluators() {
  return {{"lut", evaluate_tables}, {"lut_conv1d", evaluate_tables}, {"lut_conv2d", evaluate_tables}};
}

}  // namespace detent

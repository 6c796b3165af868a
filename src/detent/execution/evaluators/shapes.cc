#include <ATen/ops/flatten.h>
#include <ATen/ops/reshape.h>

#include "detent/execution/evaluators/evaluator.h"
#include "detent/graph/operators.h"

namespace detent {
namespace {

Flow evaluate_reshape(const Evaluation& e) {
  std::vector<int64_t> shape;
  for (size_t i = 1; i < e.inputs.size(); ++i) shape.push_back(e.integer(i));
  return at::reshape(e.tensor(0), shape);
}

}  // namespace

EvaluatorList shape_evaluators() {
  return {
      {"size", [](const Evaluation& e) -> Flow { return e.tensor(0).size(e.integer(1)); }},
      {"view", evaluate_reshape},
      {"reshape", evaluate_reshape},
      {"flatten",
       [](const Evaluation& e) -> Flow {
         return at::flatten(e.tensor(0), integer_attribute(e.node, "start_dim"),
                            integer_attribute(e.node, "end_dim"));
       }},
  };
}

}  // namespace detent

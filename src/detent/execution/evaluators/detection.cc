#include "detent/execution/evaluators/evaluator.h"
#include "detent/execution/reproducible.h"

namespace detent {
namespace {

/// Positions, which have no gradient: those of the layer float32.
Results evaluate_suppression(const Evaluation& e) {
  return reproducible_results(*find_float_operator(e.node.op), e).front();
}

}  // namespace

EvaluatorList detection_evaluators() { return {{"non_max_suppression", evaluate_suppression}}; }

}  // namespace detent

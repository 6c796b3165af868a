#pragma once

#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <ATen/core/Tensor.h>

#include "detent/graph/graph.h"

namespace detent {

/// What flows between nodes: tensors, and the integers that `size` gives.
using Flow = std::variant<at::Tensor, int64_t, double>;

/// One node about to be evaluated: its operands are quantized already.
struct Evaluation {
  const Node& node;
  std::vector<Flow> inputs;
  std::vector<std::pair<std::string_view, at::Tensor>> parameters;
  bool training = false;

  const at::Tensor& tensor(size_t index) const;
  int64_t integer(size_t index) const;
  /// An undefined tensor when absent.
  at::Tensor parameter(std::string_view name) const;
};

/// Computes a node's result in float32 on libtorch, differentiably.
using Evaluator = Flow (*)(const Evaluation&);

/// Throws CheckFailure when the operator has none: every operator of all_operators() but the placeholder has.
Evaluator find_evaluator(std::string_view op);

// One list a file; find_evaluator() joins them.
using EvaluatorList = std::vector<std::pair<std::string_view, Evaluator>>;
EvaluatorList activation_evaluators();
EvaluatorList layer_evaluators();
EvaluatorList normalization_evaluators();
EvaluatorList function_evaluators();
EvaluatorList shape_evaluators();

}  // namespace detent

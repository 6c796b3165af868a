#pragma once

#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <ATen/core/Tensor.h>

#include "detent/autograd/batch_moments.h"
#include "detent/graph/graph.h"

namespace detent {

/// A value between nodes: tensors, the integers that `size` gives, and nothing for an operand that is absent.
using Flow = std::variant<std::monostate, at::Tensor, int64_t, double>;

/// One node about to be evaluated: its operands are quantized already.
struct Evaluation {
  const Node& node;
  std::vector<Flow> inputs;
  std::vector<std::pair<std::string_view, at::Tensor>> parameters;
  bool training = false;
  const GatherSamples* gather = nullptr;  // in training with several workers

  const at::Tensor& tensor(size_t index) const;
  int64_t integer(size_t index) const;
  /// Absent, or after the last input.
  bool is_absent(size_t index) const {
    return index >= inputs.size() || std::holds_alternative<std::monostate>(inputs[index]);
  }
  /// An input that lists sizes, dimensions or positions, or is one.
  std::vector<int64_t> integers(size_t index) const;
  /// One that lists just one, or is it.
  int64_t only_integer(size_t index) const;
  /// The input as a tensor; a number becomes one of rank 0, of the dtype of the first tensor among the
  /// inputs, so that it broadcasts without changing that.
  at::Tensor as_tensor(size_t index) const;
  /// An undefined tensor when absent.
  at::Tensor parameter(std::string_view name) const;
};

/// A node's results, of which most have one.
class Results {
 public:
  Results(Flow single) : flows_{std::move(single)} {}
  Results(at::Tensor single) : flows_{std::move(single)} {}
  explicit Results(const std::vector<at::Tensor>& several) : flows_(several.begin(), several.end()) {}

  std::vector<Flow>& flows() { return flows_; }

 private:
  std::vector<Flow> flows_;
};

/// Computes a node's results on libtorch, differentiably.
using Evaluator = Results (*)(const Evaluation&);

/// The elements in another dtype, as to_dtype (core/convert.h) has them: libtorch leaves NaN and what an
/// integer does not hold to the processor.
at::Tensor converted(const at::Tensor& tensor, at::ScalarType dtype);

/// Throws CheckFailure when the operator has none: every operator of all_operators() but the placeholder has.
Evaluator find_evaluator(std::string_view op);

// One list a file; find_evaluator() joins them.
using EvaluatorList = std::vector<std::pair<std::string_view, Evaluator>>;
EvaluatorList activation_evaluators();
EvaluatorList layer_evaluators();
EvaluatorList normalization_evaluators();
EvaluatorList function_evaluators();
EvaluatorList pooling_evaluators();
EvaluatorList shape_evaluators();
EvaluatorList element_function_evaluators();
EvaluatorList elementwise_evaluators();
EvaluatorList reduction_evaluators();
EvaluatorList gather_evaluators();
EvaluatorList dynamic_shape_evaluators();
EvaluatorList resize_evaluators();
EvaluatorList recurrent_evaluators();
EvaluatorList detection_evaluators();
EvaluatorList quantized_evaluators();
EvaluatorList table_evaluators();
EvaluatorList control_flow_evaluators();

}  // namespace detent

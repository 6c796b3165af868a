#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "detent/execution/evaluators/evaluator.h"
#include "detent/graph/graph.h"
#include "detent/integer/node_form.h"

namespace detent {

/// Computes the values of what a node computes on codes, bit for bit, with libtorch's kernels: integers in
/// floating point, in float32 as long as the bound of the sums shows that none can round, else in float64.
class IntegerSimulation {
 public:
  IntegerSimulation(const Node& node, NodeForm form, Evaluator evaluate);

  /// Whether quantizing the operands around the node's float evaluation gives the same values anyway.
  static bool is_needed(const Node& node, const NodeForm& form);

  /// `inputs` hold values of the form's input types; so does the result of its output type.
  at::Tensor run(const std::vector<Flow>& inputs) const;

  /// The result before it is rounded to the output type: sums in units of their scale, else what the node
  /// computes in float.
  at::Tensor unrounded(const std::vector<Flow>& inputs) const;

 private:
  at::Tensor sums_of(const SumForm& form, const at::Tensor& input) const;
  at::Tensor run_sums(const SumForm& form, const at::Tensor& input) const;

  const Node* node_;
  NodeForm form_;
  Evaluator evaluate_;
  std::vector<std::pair<std::string_view, at::Tensor>> parameters_;  // of sums: codes as floats
};

}  // namespace detent

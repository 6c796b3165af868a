#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "detent/execution/evaluators/evaluator.h"
#include "detent/graph/graph.h"
#include "detent/integer/node_form.h"

namespace detent {

/// Computes the values of what a node computes on codes, bit for bit, with libtorch's kernels: integers in
/// floating point, in float32 as long as the bound of the sums shows that none can round. Where it does not,
/// the input channels fall into parts for each of which it does, and integers add these up; where that takes
/// too many parts, float64 holds the sums.
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
  /// Adjacent input channels, and the codes of their weights as floats.
  struct Part {
    int64_t first;
    int64_t channels;
    std::vector<std::pair<std::string_view, at::Tensor>> parameters;
  };

  void set_parts(const SumForm& form, const at::Tensor& weight, int64_t count);
  at::Tensor part_of_sums(const Part& part, const at::Tensor& steps) const;
  at::Tensor sums_of(const SumForm& form, const at::Tensor& input) const;
  at::Tensor run_sums(const SumForm& form, const at::Tensor& input) const;
  at::Tensor product_sums(const ProductForm& form, const std::vector<Flow>& inputs) const;

  const Node* node_;
  NodeForm form_;
  Evaluator evaluate_;
  std::vector<Part> parts_;  // of sums; a single one adds the bias itself
};

}  // namespace detent

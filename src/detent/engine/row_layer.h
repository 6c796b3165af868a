#pragma once

#include <cstdint>
#include <memory>

#include "detent/core/tensor.h"
#include "detent/inference/flow.h"
#include "detent/inference/node_form.h"
#include "detent/inference/reference_step.h"

namespace detent {

/// A linear layer by itself, its weights in the order of the kernels: what runs of single layers need, as
/// those of a decoder are, and rows whose number only a run knows. The results are those of the plain
/// reference.
class RowLayer {
 public:
  virtual ~RowLayer() = default;

  /// Codes [rows, inputs] of the type that the step takes, or values, become codes or values [rows, outputs].
  virtual Flow results(const Tensor& rows) const = 0;
  virtual int64_t weight_bytes() const = 0;
  int64_t outputs() const { return outputs_; }

 protected:
  explicit RowLayer(int64_t outputs) : outputs_(outputs) {}

 private:
  int64_t outputs_;
};

/// Null where no kernel computes the step. Otherwise its form loses the weights.
std::unique_ptr<const RowLayer> take_row_layer(ReferenceStep& step);

struct ProgramWeights;
/// With packed weights. Null unless the step is one of these linear layers, without codes around values.
std::shared_ptr<const RowLayer> packed_row_layer(const ReferenceStep& step, const ProgramWeights& weights);

/// Sums, differences and products of codes of 8 bits by a kernel. The results are those of the plain
/// reference.
class CodePairs {
 public:
  virtual ~CodePairs() = default;

  /// In codes of the form's output. Operands broadcast.
  virtual Tensor results(const Tensor& a, const Tensor& b) const = 0;
};

/// Null without a kernel for the pairs.
std::unique_ptr<const CodePairs> code_pairs(const PairForm& form);

}  // namespace detent

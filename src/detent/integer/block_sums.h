#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/graph/graph.h"
#include "detent/integer/code_type.h"

namespace detent {

/// A linear layer whose weights share a scale in blocks of its inputs (formats mx, block_fp, nvfp4). With x
/// and w counted from their zero points, and + and * in float32 as one rounding, in the order of the blocks:
///
///     sum[c] = 0;  for each block b:  sum[c] = sum[c] + scale[c][b] * (sum_i x_i w_ci)
///     steps[c] = start[c] + multiplier * sum[c]
///
/// The sum over a block is an integer, which float32 holds, and so it does its product with the scale: that
/// is a power of two, or has four binary places, and sums are then below 2^20.
struct BlockSumForm {
  CodeType input;
  Tensor weight;  // int32 [outputs, inputs], at most 127 in magnitude
  int64_t block = 0;
  std::vector<float> scale;        // [outputs][blocks]
  std::vector<float> start;        // one an output: the bias, in steps
  std::optional<CodeType> output;  // none: steps are values
  float multiplier = 1;            // input scale (* scale of the weights) (/ output scale)

  int64_t outputs() const { return weight.dim(0); }
  int64_t inputs() const { return weight.dim(1); }
  int64_t blocks() const { return (inputs() + block - 1) / block; }
};

/// What the node computes so; nullopt where its weights are no such products, or its operands have no codes.
std::optional<BlockSumForm> block_sum_form(const Node& node);

/// float32: the steps that inputs in codes lead to, of shape [..., outputs].
Tensor block_sum_steps(const BlockSumForm& form, const Tensor& codes);

}  // namespace detent

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/graph/graph.h"
#include "detent/inference/code_type.h"

namespace detent {

/// A linear layer or convolution whose weights share a scale in blocks of its inputs (formats mx, block_fp,
/// nvfp4; integers in groups, where windows have one position), at each position of a window their own. With
/// x and w counted from their zero points, and + and * in float32 as one rounding, in the order of the
/// positions and, in each, of the blocks:
///
///     sum[c] = 0;  for each block b:  sum[c] = sum[c] + scale[c][b] * (sum_i x_i w_ci)
///     steps[c] = start[c] + multiplier * sum[c]
///
/// The sum over a block is an integer of 32 bits, rounded to float32 (inputs of 8 bits lead to none that it
/// does not hold). Scales are powers of two, have four binary places, or are those of groups. Padding adds
/// x = 0.
struct BlockSumForm {
  CodeType input;
  Tensor weight;  // int32 [outputs, positions, inputs of a group], -128 to 127
  int64_t block = 0;
  int64_t groups = 1;
  std::vector<float> scale;        // [outputs][positions][blocks]
  std::vector<float> start;        // one an output: the bias, in steps
  std::optional<CodeType> output;  // none: steps are values
  float multiplier = 1;            // input scale (* scale of the weights) (/ output scale)

  int64_t outputs() const { return weight.dim(0); }
  int64_t positions() const { return weight.dim(1); }
  int64_t inputs() const { return weight.dim(2); }
  /// At each position.
  int64_t blocks() const { return (inputs() + block - 1) / block; }
};

/// Blocks of convolutions with fewer weights, as those of images and of channels that are convolved each by
/// itself, are added in fewer steps as float32.
inline constexpr int64_t kLeastConvolvedBlock = 8;

/// The node's sums over blocks; nullopt where its weights are no such products, blocks of a convolution are
/// too short, its operands have no codes, or an accumulator of its own adds its products up.
std::optional<BlockSumForm> block_sum_form(const Node& node);

/// float32: the steps for coded inputs, in the shape of the node's result.
Tensor block_sum_steps(const BlockSumForm& form, const Node& node, const Tensor& codes);

}  // namespace detent

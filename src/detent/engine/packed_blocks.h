#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "detent/engine/kernels/kernel_set.h"
#include "detent/engine/packed_sums.h"
#include "detent/engine/step.h"
#include "detent/inference/block_sums.h"

namespace detent {

/// The weights of a BlockSumForm in the order in which kernels read them: [convolution group][group of 16
/// outputs][position][block][steps][16][4], two steps in a vector where four bits tell all weights apart.
struct PackedBlocks {
  const KernelSet* kernels = nullptr;
  WindowShape window;
  bool is_linear = true;
  int64_t convolution_groups = 1;
  int64_t inputs = 0;   // of a convolution group
  int64_t outputs = 0;  // likewise
  int64_t block = 0;
  int64_t blocks = 0;  // at each position
  int64_t steps = 0;   // of a block
  bool nibbles = false;
  std::array<uint8_t, 16> table{};  // weights of nibbles, plus offset
  int32_t offset = 0;
  bool wide = false;       // inputs of two bytes
  CodeType input;          // inputs are counted from the code that is 0 in kernels ...
  int32_t difference = 0;  // ... so far above the zero point
  AlignedArray<uint8_t> weights;
  /// [convolution group][group][position][block][16], of the scales, + 127, where they are powers of two; ...
  std::vector<uint8_t> exponents;
  std::vector<uint16_t> scales;      // ... else the high halves of float32, where the low ones are 0, ...
  std::vector<float> whole_scales;   // ... else these
  std::vector<int16_t> weight_sums;  // likewise
  std::vector<float> start;          // [convolution group][group][16]
  float multiplier = 1;
  SumFinish finish;
  float unit = 0;  // results are the values of codes of more than 8 bits, of this scale

  /// Blocks of a window.
  int64_t window_blocks() const { return window.positions() * blocks; }
  /// Blocks of 16 outputs of a convolution group.
  int64_t groups() const { return (outputs + kBlockOutputs - 1) / kBlockOutputs; }
  /// Weights as BlockSumForm has them.
  Tensor unpacked() const;
  int64_t byte_size() const;
};

/// Why the kernels cannot compute it; "" if they can.
std::string why_not_packed(const BlockSumForm& form, const Node& node);
PackedBlocks packed_blocks(const BlockSumForm& form, const Node& node, const KernelSet& kernels);

/// Codes times the weights: rows of them, or windows of those that lie channels last.
/// `finish` is that of `packed`, or cuts more.
std::unique_ptr<EngineStep> block_sums_step(std::shared_ptr<const PackedBlocks> packed,
                                            const SumFinish& finish, size_t input, size_t output);

}  // namespace detent

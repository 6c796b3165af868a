#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "detent/engine/kernels/kernel_set.h"
#include "detent/engine/packed_sums.h"
#include "detent/engine/step.h"
#include "detent/integer/block_sums.h"

namespace detent {

/// The weights of a BlockSumForm in the order in which kernels read them: [group of 16 outputs][block]
/// [steps][16][4], two steps in a vector where four bits tell all weights apart.
struct PackedBlocks {
  const KernelSet* kernels = nullptr;
  int64_t inputs = 0;
  int64_t outputs = 0;
  int64_t block = 0;
  int64_t blocks = 0;
  int64_t steps = 0;  // of a block
  bool nibbles = false;
  std::array<uint8_t, 16> table{};  // weights of nibbles, plus offset
  int32_t offset = 0;
  uint8_t signed_from = 0;  // the byte of inputs that is 0 in kernels ...
  int32_t difference = 0;   // ... and how far from the zero point it lies
  AlignedArray<uint8_t> weights;
  std::vector<uint8_t>
      exponents;  // [group][block][16], of the scales, + 127, where they are powers of two; ...
  std::vector<uint16_t> scales;      // ... else the high halves of float32
  std::vector<int16_t> weight_sums;  // likewise
  std::vector<float> start;          // [group][16]
  float multiplier = 1;
  SumFinish finish;

  int64_t groups() const { return (outputs + kBlockOutputs - 1) / kBlockOutputs; }
  /// Weights as BlockSumForm has them.
  Tensor unpacked() const;
  int64_t byte_size() const;
};

/// Why the kernels cannot compute it; "" when they can.
std::string why_not_packed(const BlockSumForm& form);
PackedBlocks packed_blocks(const BlockSumForm& form, const KernelSet& kernels);

/// Rows of codes times the weights.
std::unique_ptr<EngineStep> block_sums_step(std::shared_ptr<const PackedBlocks> packed, size_t input,
                                            size_t output);

}  // namespace detent

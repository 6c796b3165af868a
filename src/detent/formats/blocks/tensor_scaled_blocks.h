#pragma once

#include <optional>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/formats/quant_spec.h"

namespace detent {

/// What a block format that stores a scale for the whole tensor makes of one: value = tensor scale * scale of
/// the block * element, but for the roundings of these products.
struct TensorScaledBlocks {
  float tensor_scale = 1;
  std::vector<float> scales;  // of the blocks, in the order in which the format stores them
  Tensor elements;            // float32, of the tensor's shape
};

/// nullopt of other formats. Throws Error as encode() does.
std::optional<TensorScaledBlocks> tensor_scaled_blocks(const QuantSpec& spec, const Tensor& values);

}  // namespace detent

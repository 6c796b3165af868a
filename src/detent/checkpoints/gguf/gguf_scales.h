#pragma once

#include <optional>

#include "detent/core/tensor.h"
#include "detent/checkpoints/gguf/gguf_file.h"

namespace detent {

/// Scales of a tensor [rows, columns] whose elements are integers of a block times a scale, plus a minimum
/// where the format has one: [rows, columns / group], each of neighbours of a row.
struct GgufScales {
  int64_t group = 0;
  Tensor scales;
  std::optional<Tensor> minimums = {};
};

/// nullopt of formats whose elements are something else, and of tensors that are no matrix.
std::optional<GgufScales> gguf_scales(const GgufTensor& tensor);

}  // namespace detent

#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "detent/core/tensor.h"

namespace detent {

/// What dimensions are called: by letters, and those of the ellipsis from the last on by -1, -2, ...
using EinsumLabels = std::vector<int>;

/// An equation of tensors whose shapes are known.
struct EinsumDims {
  std::vector<EinsumLabels> inputs;  // a label a dimension
  EinsumLabels result;               // each once
  std::map<int, int64_t> sizes;      // of all labels; inputs that have 1 repeat
};

/// Of "ab,b...->a", with spaces anywhere. Without a result that is the ellipsis, then the letters that occur
/// once, in the order of the alphabet. Sizes may be open. Throws Error where the text is no equation, or one
/// that does not fit the inputs.
EinsumDims einsum_dims(const std::string& equation, std::span<const Shape> inputs);

}  // namespace detent

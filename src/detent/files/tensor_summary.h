#pragma once

#include <cstdint>
#include <string>

#include "detent/core/tensor.h"

namespace detent {

/// What a file says of a tensor, known without touching its elements.
struct TensorSummary {
  std::string name;
  std::string dtype;  // numpy's name or, where Detent cannot read it, the file's
  Shape shape;
  uint64_t byte_size = 0;
};

}  // namespace detent

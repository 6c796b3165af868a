#pragma once

#include "detent/core/tensor.h"
#include "detent/integer/code_type.h"

namespace detent {

/// The smallest dtype of NumPy's that holds all quantized integers of the type.
DType code_dtype(const CodeType& type);
/// int32 integers in a dtype that holds them.
Tensor as_dtype(const Tensor& codes, DType dtype);
/// The int32 integers that stand for float32 values.
Tensor codes_of(const Tensor& values, const CodeType& type);

}  // namespace detent

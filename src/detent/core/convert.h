#pragma once

#include <optional>

#include "detent/core/tensor.h"
#include "detent/core/value.h"

namespace detent {

/// The float32 nearest to each element (ties to even), whatever the dtype; the same tensor when it is
/// float32.
Tensor to_float32(const Tensor& tensor);

/// Elements of the floats that C++ does not compute in, those of 16 and of 8 bits, as float32, which holds
/// them; any others as they are.
Tensor widened(const Tensor& tensor);

/// The elements in another dtype, but for the 8-bit floats, which only to_float32 reads; the same tensor
/// where it has that dtype. Floats become the nearest float, ties to even, and are cut towards zero to
/// integers; integers wrap modulo 2^bits. What no int64 holds, NaN among it, becomes the least one first.
/// Bool is whether an element is not 0.
Tensor to_dtype(const Tensor& tensor, DType dtype);

/// A number as a tensor of rank 0; nothing where the value is none, or the type has integers and does not
/// hold it.
std::optional<Tensor> tensor_of_number(const Value& number, DType dtype);

}  // namespace detent

#pragma once

#include <cstddef>
#include <cstdint>
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

// Floats of 16 bits, as words. NaN keeps sign and payload when it becomes float32; the other way bfloat16
// keeps their upper bits, float16 the sign.

/// IEEE 754 binary16: 1 sign, 5 exponent (bias 15), 10 mantissa bits.
float float16_to_float(uint16_t bits);
/// The nearest, ties to even.
uint16_t float_to_float16(float value);
/// The upper half of a float32.
float bfloat16_to_float(uint16_t bits);
uint16_t float_to_bfloat16(float value);

// The same of `count` adjacent ones.

void floats_of_float16(const uint16_t* halves, float* floats, size_t count);
void float16_of_floats(const float* floats, uint16_t* halves, size_t count);
void floats_of_bfloat16(const uint16_t* halves, float* floats, size_t count);
void bfloat16_of_floats(const float* floats, uint16_t* halves, size_t count);

}  // namespace detent

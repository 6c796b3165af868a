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

/// 16- and 8-bit floats as float32, which holds them exactly; other types unchanged.
Tensor widened(const Tensor& tensor);

/// Converts to another dtype except 8-bit floats, which only to_float32 reads; the same tensor if it has that
/// dtype. Floats round to nearest even, and truncate to integers; integers wrap modulo 2^bits. What int64
/// cannot hold, NaN included, becomes its minimum first. Bool is whether an element is not 0.
Tensor to_dtype(const Tensor& tensor, DType dtype);

/// A number as a tensor of rank 0; nullopt for other values and for numbers that an integer type does not
/// hold.
std::optional<Tensor> tensor_of_number(const Value& number, DType dtype);

// 16-bit floats as words. NaN keeps sign and payload on widening; on narrowing bfloat16 keeps the upper
// payload bits, float16 the sign.

/// IEEE 754 binary16: 1 sign, 5 exponent (bias 15), 10 mantissa bits.
float float16_to_float(uint16_t bits);
/// Rounds to nearest even.
uint16_t float_to_float16(float value);
/// The upper half of a float32.
float bfloat16_to_float(uint16_t bits);
uint16_t float_to_bfloat16(float value);

// The same for `count` adjacent elements.

void floats_of_float16(const uint16_t* halves, float* floats, size_t count);
void float16_of_floats(const float* floats, uint16_t* halves, size_t count);
void floats_of_bfloat16(const uint16_t* halves, float* floats, size_t count);
void bfloat16_of_floats(const float* floats, uint16_t* halves, size_t count);

}  // namespace detent

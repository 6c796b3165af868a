#pragma once

#include <cstddef>
#include <cstdint>

namespace detent {

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

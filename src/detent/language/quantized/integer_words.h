#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/language/quantized/quantization.h"

namespace detent {

// Integers of 2 to 8 bits in the words of int32 tensors: a stream whose first code lies in the lowest bits
// of the first word. Where the width does not divide 32, codes cross from one word into the next.

/// Words of so many codes.
int64_t words_of(int64_t codes, int64_t bits);
/// `count` codes of words that are `stride` apart.
void read_codes(const int32_t* words, int64_t stride, int64_t bits, int64_t count, float* codes);

/// The matrix with rows as columns, in float32.
Tensor float32_transposed(const Tensor& matrix);

/// Blocks of inputs by their number: empty where they follow each other, `group` inputs each. Throws Error
/// naming the tensor unless there are `inputs` numbers below `blocks`.
std::vector<int32_t> blocks_of_inputs(const FolderParts& parts, const std::string& name,
                                      const Tensor& numbers, int64_t inputs, int64_t group, int64_t blocks);

}  // namespace detent

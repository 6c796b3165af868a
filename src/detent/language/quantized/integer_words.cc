#include "detent/language/quantized/integer_words.h"

#include <algorithm>

#include "detent/core/convert.h"
#include "detent/core/error.h"

namespace detent {

constexpr int64_t kBitsOfWord = 32;

int64_t words_of(int64_t codes, int64_t bits) { return (codes * bits + kBitsOfWord - 1) / kBitsOfWord; }

void read_codes(const int32_t* words, int64_t stride, int64_t bits, int64_t count, float* codes) {
  const uint32_t mask = (1U << bits) - 1;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t word = i * bits / kBitsOfWord;
    const int64_t shift = i * bits % kBitsOfWord;
    uint32_t code = static_cast<uint32_t>(words[word * stride]) >> shift;
    if (shift + bits > kBitsOfWord)
      code |= static_cast<uint32_t>(words[(word + 1) * stride]) << (kBitsOfWord - shift);
    codes[i] = static_cast<float>(code & mask);
  }
}

Tensor float32_transposed(const Tensor& matrix) {
  const Tensor from = to_dtype(matrix, DType::kFloat32);
  const int64_t rows = matrix.dim(0);
  const int64_t columns = matrix.dim(1);
  Tensor result(DType::kFloat32, {columns, rows});
  const float* next = from.values<float>().data();
  float* const to = result.values<float>().data();
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) to[column * rows + row] = *next++;
  }
  return result;
}

std::vector<int32_t> blocks_of_inputs(const FolderParts& parts, const std::string& name,
                                      const Tensor& numbers, int64_t inputs, int64_t group, int64_t blocks) {
  parts.expect_shape(name, numbers.shape(), {inputs});
  if (numbers.dtype() != DType::kInt32 && numbers.dtype() != DType::kInt64)
    fail("{}: {} is {}, expected int32 or int64", parts.where(), name, dtype_name(numbers.dtype()));
  const Tensor wide = to_dtype(numbers, DType::kInt64);
  std::vector<int32_t> result;
  bool are_neighbours = true;
  for (const int64_t number : wide.values<int64_t>()) {
    if (number < 0 || number >= blocks)
      fail("{}: {} has the group {}, expected 0 to {}", parts.where(), name, number, blocks - 1);
    are_neighbours = are_neighbours && number == std::ssize(result) / group;
    result.push_back(static_cast<int32_t>(number));
  }
  if (are_neighbours) result.clear();
  return result;
}

}  // namespace detent

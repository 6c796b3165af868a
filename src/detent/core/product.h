#pragma once

#include <cstdint>

namespace detent {

/// C += A B in float32 for `rows` rows of C and its columns [column_begin, column_end), multiples of
/// kPadding; A(i, k) is a[i * a_row + k * a_column]. Each element of C adds its products in the order
/// of k, whatever the vector width, with one rounding where the processor can.
struct Product {
  static constexpr int64_t kPadding = 16;

  const float* a;
  int64_t a_row;
  int64_t a_column;
  const float* b;  // row k begins at b + k * b_stride
  int64_t b_stride;
  float* c;
  int64_t c_stride;
  int64_t rows;
  int64_t depth;
  int64_t column_begin;
  int64_t column_end;
};
void add_product(const Product& product);

}  // namespace detent

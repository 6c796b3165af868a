#pragma once

#include <cstdint>

namespace detent {

/// C += A B for `rows` rows of C and its columns [column_begin, column_end), multiples of kPadding; A(i, k)
/// is a[i * a_row + k * a_column]. Each element of C adds its products in the order of k, whatever the vector
/// width; in float32 with one rounding each, in int32 modulo 2^32.
template <class T>
struct AddedProduct {
  static constexpr int64_t kPadding = 16;

  const T* a;
  int64_t a_row;
  int64_t a_column;
  const T* b;  // row k begins at b + k * b_stride
  int64_t b_stride;
  T* c;
  int64_t c_stride;
  int64_t rows;
  int64_t depth;
  int64_t column_begin;
  int64_t column_end;
};
using FloatProduct = AddedProduct<float>;
using IntegerProduct = AddedProduct<int32_t>;

/// The same with row k of B beginning at b + offsets[k].
struct OffsetProduct {
  const float* a;
  int64_t a_row;
  int64_t a_column;
  const float* b;
  const int64_t* offsets;
  float* c;
  int64_t c_stride;
  int64_t rows;
  int64_t depth;
  int64_t column_begin;
  int64_t column_end;
};

void add_product(const FloatProduct& product);
void add_product(const OffsetProduct& product);
void add_product(const IntegerProduct& product);

/// to[i] = a[i * a_step] * b[i * b_step] + 0, rounded once; steps are 0 or 1.
void multiply_lines(const float* a, int64_t a_step, const float* b, int64_t b_step, int64_t count, float* to);

/// sums[i] = a[i] * b[i] + sums[i], rounded once.
void add_elementwise(const float* a, const float* b, float* sums, int64_t count);

/// sums[i] = scale * integers[i] + sums[i], each integer rounded to float32 and the sum once.
void add_scaled(float scale, const int32_t* integers, float* sums, int64_t count);

}  // namespace detent

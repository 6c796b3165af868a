#pragma once

#include <cstdint>

namespace detent {

/// Rows of bytes, two rows in one where they are nibbles.
struct PackedRows {
  const int8_t* bytes;
  bool are_nibbles;
  int64_t rows;
  int64_t columns;      // a multiple of 16
  const float* scales;  // of each row, or of each column; null: none, as of zero points
  const float* zero_points;
  bool are_of_rows;
  const float* table;  // null: integers
  int32_t offset;      // of codes
};

}  // namespace detent

#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace detent {

/// How elements share parameters: in rows of `length` elements, of which the last may be shorter; row r is of
/// group r % groups.
struct AffineRows {
  int64_t elements = 0;
  int64_t length = 0;
  int64_t groups = 1;

  int64_t count() const { return length == 0 ? 0 : (elements + length - 1) / length; }
};

/// Value = clamp(round(x / scale), low, high) * scale, ties to even; low and high are codes minus the zero
/// point. x saturates where round(x / scale) is beyond them.
struct AffineGroup {
  float scale = 1;
  float low = 0;
  float high = 0;
};

/// Sums that the gradients of a group's parameters are made of; g is the gradient of a value.
struct AffineSums {
  double slope = 0;  // of g * (code - x / scale), where x saturates of g * code
  double below = 0;  // of g where x saturates at low
  double above = 0;  // of g where x saturates at high
};

/// NaN passes through. Neither depends on the number of threads.
void round_affine_rows(const AffineRows& rows, std::span<const AffineGroup> groups, const float* x,
                       float* values);

/// Writes the gradient of x: that of the value, but 0 where x saturates unless `everywhere`. Returns the sums
/// of each group.
std::vector<AffineSums> affine_row_gradients(const AffineRows& rows, std::span<const AffineGroup> groups,
                                             const float* x, const float* of_values, bool everywhere,
                                             float* of_x);

}  // namespace detent

#pragma once

#include <cstddef>
#include <span>

namespace detent {

/// Sums over values of a few neighbouring exponents, in double and yet exact. With h a value whose last 12
/// bits are cleared and l the rest, x^2 = h^2 + 2 h l + l^2. For up to 4096 values of magnitudes from 2^b to
/// below 2^(b + 9) each of these sums is a multiple of the unit below and less than 2^53 times that, and so
/// is every intermediate result: nothing is rounded, in whatever order the values are added.
struct WindowSums {
  double values = 0;  // unit 2^(b - 23), as is that of magnitudes
  double magnitudes = 0;
  double high_squares = 0;  // h^2: 2^(2b - 22)
  double products = 0;      // h l: 2^(2b - 34)
  double low_squares = 0;   // l^2: 2^(2b - 46)
  size_t rest = 0;          // values that are left out
};

constexpr int kWindowExponents = 9;

/// Sums the values of at least `lowest` = 2^b in magnitude and copies the others to `rest`, which has room
/// for all. At most 4096 finite values below 2^(b + 9), b >= -126.
WindowSums sum_window(std::span<const float> values, float lowest, float* rest);

}  // namespace detent

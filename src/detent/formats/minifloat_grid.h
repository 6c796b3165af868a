#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "detent/formats/float_bits.h"

namespace detent {

/// The values of a binary floating-point format with one sign bit: k * 2^(e - M) for e >= min_exponent and 0
/// <= k < 2^(M+1), up to `largest`. k < 2^M only for e = min_exponent: the subnormals.
/// Ties go to the even k: with M >= 1 that is the even code, with M = 0 the larger magnitude.
/// float32 must hold all of them: 0 <= M <= 22, min_exponent - M >= -149.
struct MinifloatGrid {
  int mantissa_bits;  // M
  int min_exponent;   // of the smallest normal value
  float largest;
  /// Whether what rounds beyond `largest` becomes an infinity.
  bool to_infinity = false;
  /// Whether there is +0 only; else what rounds to 0 keeps its sign.
  bool one_zero = false;

  bool operator==(const MinifloatGrid&) const = default;
};

/// What the kernel needs.
struct MinifloatParameters {
  MinifloatGrid grid;
  float overflow_from;   // from this magnitude on, the result is:
  float overflow_value;  // `largest` or an infinity
  Interval unsaturated;  // inputs
};

/// The largest float32 whose rounding on an unbounded grid stays at `largest`. The exact edge is half a step
/// above; as a tie it belongs to the even one of the two neighbours.
inline float last_unsaturated(const MinifloatGrid& grid) {
  const int exponent = std::max(std::ilogb(grid.largest), grid.min_exponent);
  const double step = std::ldexp(1.0, exponent - grid.mantissa_bits);
  const double edge = static_cast<double>(grid.largest) + step / 2;
  const float below = round_down(edge);
  const bool tie_leaves =
      static_cast<double>(below) == edge && std::fmod(static_cast<double>(grid.largest) / step, 2.0) != 0.0;
  return tie_leaves ? std::nextafter(below, 0.0F) : below;
}

inline MinifloatParameters minifloat_parameters(const MinifloatGrid& grid) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float edge = last_unsaturated(grid);
  return {.grid = grid,
          .overflow_from = grid.to_infinity ? std::nextafter(edge, kInfinity) : kInfinity,
          .overflow_value = grid.to_infinity ? kInfinity : grid.largest,
          .unsaturated = {-edge, edge}};
}

/// All finite values, ascending.
inline std::vector<float> minifloat_values(const MinifloatGrid& grid) {
  std::vector<float> magnitudes;
  const int first_normal = 1 << grid.mantissa_bits;
  for (int exponent = grid.min_exponent; exponent <= std::ilogb(grid.largest); ++exponent) {
    for (int k = exponent == grid.min_exponent ? 0 : first_normal; k < 2 * first_normal; ++k) {
      const float value = std::ldexp(static_cast<float>(k), exponent - grid.mantissa_bits);
      if (value <= grid.largest) magnitudes.push_back(value);
    }
  }
  std::vector<float> values;
  for (size_t i = magnitudes.size(); i > 1; --i) values.push_back(-magnitudes[i - 1]);
  values.insert(values.end(), magnitudes.begin(), magnitudes.end());
  return values;
}

}  // namespace detent

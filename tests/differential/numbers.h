#pragma once

#include <algorithm>
#include <cmath>

namespace detent {

/// Facts about a value's numbers before any is computed. Inputs are multiples of a power of two, so that sums
/// and products of few are exact in any order; what comes after a rounding has an error, and operators that
/// jump (floor, comparisons, positions of the largest) do not read it.
struct Numbers {
  double magnitude = 1;      // at least that of each element that is finite
  double step = 1;           // all are multiples of it; 0: not known
  double error = 0;          // how far apart two right results may be
  bool is_positive = false;  // at least `step`
  bool is_wild = false;      // NaN, infinities and the ends of the type are among them
  double apart = 0;          // how far apart two right integers may be; nothing reads such

  static constexpr double kUnit =
      0x1p-22;  // a function of float32 may be off by some units in the last place

  bool is_exact() const { return !is_wild && error == 0 && step > 0 && magnitude < step * 0x1p24; }
};

/// The same with a rounding for each of `operations`, if the result is not exact.
inline Numbers rounded(Numbers numbers, double operations = 1) {
  if (numbers.is_exact()) return numbers;
  numbers.error += Numbers::kUnit * operations * numbers.magnitude;
  numbers.step = 0;
  return numbers;
}

/// Elements of either.
inline Numbers either(const Numbers& a, const Numbers& b) {
  return {std::max(a.magnitude, b.magnitude), std::min(a.step, b.step), std::max(a.error, b.error),
          a.is_positive && b.is_positive, a.is_wild || b.is_wild};
}

inline Numbers sum(const Numbers& a, const Numbers& b) {
  return rounded({a.magnitude + b.magnitude, std::min(a.step, b.step), a.error + b.error, false,
                  a.is_wild || b.is_wild});
}

inline Numbers product(const Numbers& a, const Numbers& b) {
  return rounded({a.magnitude * b.magnitude, a.step * b.step, a.error * b.magnitude + b.error * a.magnitude,
                  a.is_positive && b.is_positive, a.is_wild || b.is_wild});
}

/// A sum of so many elements.
inline Numbers sum_of(const Numbers& a, double count) {
  count = std::max(count, 1.0);
  return rounded({a.magnitude * count, a.step, a.error * count, a.is_positive, a.is_wild}, count);
}

/// A function of these slope and bound, which rounds.
inline Numbers function_of(const Numbers& a, double slope, double bound) {
  return {bound, 0, slope * a.error + 4 * Numbers::kUnit * bound, false, a.is_wild};
}

}  // namespace detent

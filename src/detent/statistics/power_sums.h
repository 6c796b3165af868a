#pragma once

#include <array>
#include <cstdint>

#include "detent/statistics/extremes.h"
#include "detent/statistics/key_counter.h"
#include "detent/statistics/wide_integer.h"

// Exact sums of powers of finite float32 values: integers in units of that power of the smallest float32,
// 2^-149. They hold 2^62 values.

namespace detent {

/// A sum of x, and of |x|. 96 bytes.
class ExactSum {
 public:
  void add(float value);
  /// Adds units * 2^shift * 2^-149, taken from the sum where `negative`.
  void add(UInt128 units, unsigned shift, bool negative) {
    (negative ? negative_ : positive_).add_sum(units, shift);
  }
  void merge(const ExactSum& other);
  Float128 value() const;
  Float128 magnitudes() const;
  /// The magnitude of the sum, in units of 2^-149, or the sum of magnitudes.
  WideInteger<6> units(bool abs) const;
  bool is_negative() const { return positive_ < negative_; }

  void write(StateWriter& writer) const;
  void read(StateReader& reader);
  static constexpr size_t kStateBytes = size_t{2} * 6 * sizeof(uint64_t);

 private:
  WideInteger<6> positive_;
  WideInteger<6> negative_;
};

/// Sums of x, |x| and x^2. 176 bytes a kept position.
struct PowerSums {
  ExactSum values;
  WideInteger<10> squares;

  Float128 sum(bool abs) const { return abs ? values.magnitudes() : values.value(); }
  Float128 square_sum() const { return squares.scaled(2); }
  /// n^2 times the variance of `n` values (or magnitudes), in units of 2^-298: n S2 - S1^2, of which nothing
  /// is rounded, so that values that are nearly equal do not cancel to noise.
  WideInteger<12> spread(int64_t n, bool abs) const;
  double variance(int64_t n, bool abs) const;  // 0 of none
  void merge(const PowerSums& other);
  void write(StateWriter& writer) const;
  void read(StateReader& reader);
  static constexpr size_t kStateBytes = ExactSum::kStateBytes + 10 * sizeof(uint64_t);
};

/// Sums of x^3 and x^4. 376 bytes a kept position.
struct HigherPowerSums {
  WideInteger<14> positive_cubes;
  WideInteger<14> negative_cubes;
  WideInteger<19> fourths;

  Float128 cube_sum() const;
  Float128 fourth_sum() const { return fourths.scaled(4); }
  /// Mean of (x - mean)^4 / variance^2 of `n` values with these sums and `lower`; 0 where all are equal.
  double kurtosis(const PowerSums& lower, int64_t n) const;
  void merge(const HigherPowerSums& other);
  void write(StateWriter& writer) const;
  void read(StateReader& reader);
  static constexpr size_t kStateBytes = (2 * 14 + 19) * sizeof(uint64_t);
};

/// Targets of the sums; the second may be null.
struct PowerTarget {
  PowerSums* sums = nullptr;
  HigherPowerSums* higher = nullptr;
};

/// Adds chunks to sums, a few exponents at a time (ExponentWindowSums), the largest first. Not thread-safe.
class PowerAdder {
 public:
  /// Values of one sign, to each of the targets; these differ in nothing but what they hold. And to the
  /// counter, unless null. `next` is what is going to be read next (SideWork).
  void add(const FiniteChunk& chunk, std::span<const PowerTarget> targets, KeyCounter* counter = nullptr,
           std::span<const float> next = {});

 private:
  std::array<float, SignBuffer::kMostValues> rest_;
};

}  // namespace detent

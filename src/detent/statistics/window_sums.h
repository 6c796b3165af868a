#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "detent/statistics/wide_integer.h"

namespace detent {

/// Exact sums of powers of the magnitudes of a few neighbouring exponents. With e the least exponent field,
/// each is n 2^(e - 150) for an integer n below 2^28, and with n^2 = a 2^28 + b
///     n^3 = an 2^28 + bn,     n^4 = aa 2^56 + 2 ab 2^28 + bb,
/// all products below 2^56, so that the vectors' 64-bit lanes take 2^8 of them before they are emptied.
struct ExponentWindowSums {
  UInt128 n = 0;
  UInt128 squares = 0;
  // Only if requested.
  UInt128 an = 0, bn = 0;
  UInt128 aa = 0, ab = 0, bb = 0;

  size_t rest = 0;         // values that are left out
  uint32_t rest_bits = 0;  // of the largest of their magnitudes
};

constexpr uint32_t kWindowExponents = 5;

/// Work interleaved with the sums: it uses other execution units, so that all together takes little longer
/// than the slowest.
struct SideWork {
  /// Unless null, counters of 2^(32 - dropped) keys, the values' bits without the last `dropped`: each value
  /// is counted.
  uint32_t* counts = nullptr;
  int dropped = 0;
  /// Next data to read; as much as there are values is prefetched.
  std::span<const float> next = {};
};

/// Sums the values whose exponent field is at least `exponent` (and below exponent + kWindowExponents; 1 or
/// more) and moves the others to `rest`, which has room for all and may begin where `values` does.
ExponentWindowSums sum_window(std::span<const float> values, uint32_t exponent, bool higher, float* rest,
                              const SideWork& beside = {});

}  // namespace detent

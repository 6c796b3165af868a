#pragma once

#include <cstdint>
#include <span>

#include "detent/graph/accumulator.h"

namespace detent {

/// Additions whose exact sum an accumulator of integers does not hold, or is beyond the largest float; and
/// sums that had one or more of them.
struct AccumulatorOverflows {
  int64_t additions = 0;
  int64_t sums = 0;

  AccumulatorOverflows& operator+=(const AccumulatorOverflows& other) {
    additions += other.additions;
    sums += other.sums;
    return *this;
  }
};

/// How many sums are computed at once: the number of columns is a multiple of it.
inline constexpr int64_t kAddedColumns = 64;

/// sums[i] = 0, then + factors[k] * values[k * columns + i] for each k in order, each sum in the accumulator.
/// Products of integers are at most 2^30 in magnitude where the accumulator has fewer than 32 bits, and no
/// sum is beyond 32 bits where it has 32. The same on every processor.
AccumulatorOverflows add_products(const Accumulator& accumulator, std::span<const int32_t> factors,
                                  const int32_t* values, int64_t columns, int32_t* sums);
AccumulatorOverflows add_products(const Accumulator& accumulator, std::span<const float> factors,
                                  const float* values, int64_t columns, float* sums);

}  // namespace detent

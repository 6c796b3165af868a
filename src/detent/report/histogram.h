#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "detent/core/value.h"

namespace detent {

/// Number of finite values in each of equal cells from the least to the greatest.
struct ValueHistogram {
  float low = 0;  // of the finite values; both 0 where there are none
  float high = 0;
  std::vector<int64_t> counts;  // the last cell holds `high` as well
  int64_t not_finite = 0;

  /// {"low", "high", "counts", "not_finite"}, as docs/results.md says.
  Table table() const;
};

/// `cells` is at least 1. Values that are all equal are in one cell.
ValueHistogram value_histogram(std::span<const float> values, size_t cells = 64);

}  // namespace detent

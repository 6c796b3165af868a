#pragma once

#include <cmath>
#include <cstdint>

namespace detent {

/// Standard error of the share of `hits` among `count` samples, sqrt(p (1 - p) / count). p is
/// (hits + 1) / (count + 2), Laplace's estimate, so that 3 of 3 have one too.
inline double share_error(int64_t hits, int64_t count) {
  if (count == 0) return 0;
  const double p = (static_cast<double>(hits) + 1) / (static_cast<double>(count) + 2);
  return std::sqrt(p * (1 - p) / static_cast<double>(count));
}

}  // namespace detent

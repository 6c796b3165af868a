#pragma once

#include <cmath>
#include <cstdint>

namespace detent {

/// Whether an accuracy has fallen by 5 points or more, and farther than chance explains: by twice the
/// standard error of the difference.
inline bool is_large_drop(double before, double after, int64_t samples) {
  constexpr double kLarge = 0.05;
  const double variance = (before * (1 - before) + after * (1 - after)) / static_cast<double>(samples);
  return before - after >= kLarge && before - after >= 2 * std::sqrt(variance);
}

}  // namespace detent

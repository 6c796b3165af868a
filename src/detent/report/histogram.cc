#include "detent/report/network.h"

#include <algorithm>
#include <cmath>

#include "detent/core/error.h"

namespace detent {

Table ValueHistogram::table() const {
  return {{"low", static_cast<double>(low)},
          {"high", static_cast<double>(high)},
          {"counts", Value(counts)},
          {"not_finite", not_finite}};
}

ValueHistogram value_histogram(std::span<const float> values, size_t cells) {
  DETENT_CHECK(cells > 0, "{} cells", cells);
  ValueHistogram histogram;
  bool is_first = true;
  for (const float value : values) {
    if (!std::isfinite(value)) {
      ++histogram.not_finite;
      continue;
    }
    histogram.low = is_first ? value : std::min(histogram.low, value);
    histogram.high = is_first ? value : std::max(histogram.high, value);
    is_first = false;
  }
  if (is_first) return histogram;
  histogram.counts.assign(histogram.low < histogram.high ? cells : 1, 0);
  const auto last = histogram.counts.size() - 1;
  // In double, in which the width of any range of floats is finite.
  const auto low = static_cast<double>(histogram.low);
  const double per_cell =
      (static_cast<double>(histogram.high) - low) / static_cast<double>(histogram.counts.size());
  for (const float value : values) {
    if (!std::isfinite(value)) continue;
    const size_t cell = last == 0 ? 0 : static_cast<size_t>((static_cast<double>(value) - low) / per_cell);
    ++histogram.counts[std::min(cell, last)];
  }
  return histogram;
}

}  // namespace detent

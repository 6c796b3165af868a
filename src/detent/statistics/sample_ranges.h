#pragma once

#include <vector>

#include "detent/statistics/power_sums.h"
#include "detent/statistics/slot_layout.h"

namespace detent {

/// Sums over samples of the smallest and the largest finite value of each, and of their magnitudes. 392 bytes
/// a kept position.
struct SampleRangeSums {
  ExactSum min;
  ExactSum max;
  ExactSum min_magnitude;
  ExactSum max_magnitude;
  int64_t samples = 0;  // that had a finite value

  void add(const Extremes& sample);
  void merge(const SampleRangeSums& other);
  /// Means over the samples (there must be one).
  double mean_min(bool abs) const { return mean(abs ? min_magnitude : min); }
  double mean_max(bool abs) const { return mean(abs ? max_magnitude : max); }

  void write(StateWriter& writer) const;
  void read(StateReader& reader);
  static constexpr size_t kStateBytes = 4 * ExactSum::kStateBytes + sizeof(int64_t);

 private:
  double mean(const ExactSum& sum) const;
};

/// Adds `samples` samples of the given layout, one after another at `data`, to the sums of each slot; and
/// max(x, 0) for each x to `post_relu`, unless null.
void add_sample_ranges(const float* data, int64_t samples, const SlotLayout& sample_layout,
                       std::vector<SampleRangeSums>& sums, std::vector<SampleRangeSums>* post_relu);

}  // namespace detent

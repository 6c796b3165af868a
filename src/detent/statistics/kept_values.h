#pragma once

#include <vector>

#include "detent/statistics/key_counter.h"

namespace detent {

/// How finely values are kept.
struct ValueResolution {
  /// A tensor's values are kept as they are while it has seen at most so many, in all its positions together.
  int64_t exact_values = 0;
  /// Beyond, their counts by the first so many bits (KeyHistogram).
  int key_bits = 0;
};

/// The finite values of each slot that are not zero: themselves, 4 bytes each, or a KeyHistogram. The owner
/// decides when to change to the second by the number of values alone, so that the way in which they were cut
/// does not matter. Different slots may be added to by different threads.
class KeptValues {
 public:
  explicit KeptValues(ValueResolution resolution) : resolution_(resolution) {}

  void resize(size_t slots);
  const ValueResolution& resolution() const { return resolution_; }
  bool is_exact() const { return exact_; }
  /// From now on, counts.
  void become_histograms();
  void add(size_t slot, const FiniteChunk& chunk);
  /// Takes what was counted, and `positive`, unless null, what of it is positive. Not while exact.
  void add(size_t slot, KeyCounter& counter, KeptValues* positive) {
    counter.empty_into(histograms_[slot], positive == nullptr ? nullptr : &positive->histograms_[slot]);
  }
  /// Not of histograms into exact values.
  void merge(const KeptValues& other);

  /// In ascending order, each value in a bin of its own. Only while exact.
  std::vector<ValueBin> exact_bins(size_t slot) const;
  /// In ascending order; `key_bits` at most those of the resolution.
  std::vector<ValueBin> histogram_bins(size_t slot, int key_bits) const;

  void write(size_t slot, StateWriter& writer) const;
  /// Throws Error unless there are `expected` values.
  void read(size_t slot, StateReader& reader, int64_t expected);

 private:
  ValueResolution resolution_;
  bool exact_ = true;
  std::vector<std::vector<float>> values_;  // while exact
  std::vector<KeyHistogram> histograms_;    // else
};

/// The bins of the magnitudes, in ascending order.
std::vector<ValueBin> magnitude_bins(const std::vector<ValueBin>& bins);

}  // namespace detent

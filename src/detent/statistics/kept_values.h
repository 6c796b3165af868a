#pragma once

#include <vector>

#include "detent/statistics/key_counter.h"

namespace detent {

/// Resolution of kept values.
struct ValueResolution {
  /// Values are kept exactly while the tensor has seen at most this many, in all positions.
  int64_t exact_values = 0;
  /// Beyond that, counts by this many leading bits (KeyHistogram).
  int key_bits = 0;
};

/// The nonzero finite values of each slot: 4 bytes each, or a KeyHistogram. The owner switches to the second
/// by the number of values alone, so batching does not matter. Threads may add to different slots.
class KeptValues {
 public:
  explicit KeptValues(ValueResolution resolution) : resolution_(resolution) {}

  void resize(size_t slots);
  const ValueResolution& resolution() const { return resolution_; }
  bool is_exact() const { return exact_; }
  /// Switches to counts.
  void become_histograms();
  void add(size_t slot, const FiniteChunk& chunk);
  /// Adds counts, and their positive part to `positive`, unless null. Not while exact.
  void add(size_t slot, KeyCounter& counter, KeptValues* positive) {
    counter.empty_into(histograms_[slot], positive == nullptr ? nullptr : &positive->histograms_[slot]);
  }
  /// Histograms cannot merge into exact values.
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

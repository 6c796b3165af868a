#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "detent/statistics/kept_values.h"
#include "detent/statistics/power_sums.h"
#include "detent/statistics/recording.h"
#include "detent/statistics/reduction.h"
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
  /// Means over the samples (at least one).
  double mean_min(bool abs) const { return mean(abs ? min_magnitude : min); }
  double mean_max(bool abs) const { return mean(abs ? max_magnitude : max); }

  void write(StateWriter& writer) const;
  void read(StateReader& reader);
  static constexpr size_t kStateBytes = 4 * ExactSum::kStateBytes + sizeof(int64_t);

 private:
  double mean(const ExactSum& sum) const;
};

/// Adds `samples` consecutive samples of this layout at `data` to the sums of each slot, and max(x, 0) for
/// each x to `post_relu`, unless null.
void add_sample_ranges(const float* data, int64_t samples, const SlotLayout& sample_layout,
                       std::vector<SampleRangeSums>& sums, std::vector<SampleRangeSums>* post_relu);

/// Accumulators that a statistic needs; counts and extremes always are.
struct Needs {
  bool sums = false;         // PowerSums
  bool higher_sums = false;  // HigherPowerSums, with PowerSums
  bool sample_ranges = false;
  std::optional<ValueResolution> values = {};
  std::optional<int64_t> record_bytes = {};  // Recording, of at most so many

  /// Satisfies both.
  void include(const Needs& other);
};

/// All accumulators for one set of reduced dimensions, one of each kind per kept position. All are integers
/// or extremes, so adding and merging are exact and commute. Statistics of magnitudes derive from the same
/// state.
class Accumulators {
 public:
  Accumulators(Dims dims, Needs needs);

  /// One sweep over float32 values of shape [samples, ...]; rank 0 is one sample. `post_relu`, unless null,
  /// sees max(x, 0) for each value x (NaN where x is NaN) in the same sweep. It needs the same, but no
  /// recording, and has seen as many values.
  ///
  /// `after`, unless null, is called during the sweep with the number of samples seen so far, ascending:
  /// other readers of the same values then find them in the caches.
  using AfterSamples = std::function<void(int64_t seen)>;
  void update(const Tensor& batch, std::optional<int64_t> first_sample, Accumulators* post_relu = nullptr,
              const AfterSamples& after = {});
  void merge(const Accumulators& other);

  /// The accumulated kinds.
  const Needs& needs() const { return needs_; }
  /// Whether sweeps ignore the single values.
  bool only_extremes() const;
  const Reduction& reduction() const { return reduction_; }
  size_t slots() const { return extremes_.size(); }
  /// Values seen, and those in each slot.
  int64_t elements() const { return elements_; }
  int64_t elements_per_slot() const { return elements_ / static_cast<int64_t>(slots()); }
  int64_t samples() const { return samples_; }

  const Extremes& extremes(size_t slot) const { return extremes_[slot]; }
  /// Each only if needed.
  const PowerSums& sums(size_t slot) const { return sums_[slot]; }
  const HigherPowerSums& higher_sums(size_t slot) const { return higher_sums_[slot]; }
  const SampleRangeSums& sample_ranges(size_t slot) const { return sample_ranges_[slot]; }
  /// Moments of the finite values (there must be one) or their magnitudes, rounded once; the variance is the
  /// population's, the mean of (x - mean)^2. When sums are needed.
  double mean(size_t slot, bool abs) const;
  double variance(size_t slot, bool abs) const;
  const Recording& recording() const { return *recording_; }

  /// The finite values of a slot in ascending order, in bins that do not overlap; `resolution` is not finer
  /// than the needed one. Exact (each bin one value) while is_exact(resolution).
  std::vector<ValueBin> bins(size_t slot, const ValueResolution& resolution, bool abs) const;
  bool is_exact(const ValueResolution& resolution) const { return elements_ <= resolution.exact_values; }

  void write(StateWriter& writer) const;
  /// Into empty accumulators. Throws Error on invalid bytes.
  void read(StateReader& reader);

 private:
  void resize();
  void expect(const Tensor& batch);
  class Sweep;
  void sweep(const float* data, const SlotLayout& layout, Accumulators* post_relu);
  void sweep_slot(std::span<const float> values, size_t sample_size, Accumulators* post_relu,
                  const AfterSamples& after = {});
  void sweep_slot_in_parts(std::span<const float> values, size_t sample_size, Accumulators* post_relu);
  Accumulators empty_part() const;
  void merge_part(const Accumulators& part);
  PowerTarget powers(size_t slot);
  size_t slot_state_bytes() const;

  Needs needs_;
  Reduction reduction_;
  int64_t elements_ = 0;
  int64_t samples_ = 0;
  std::vector<Extremes> extremes_;
  std::vector<PowerSums> sums_;
  std::vector<HigherPowerSums> higher_sums_;
  std::vector<SampleRangeSums> sample_ranges_;
  std::optional<KeptValues> values_;
  std::optional<Recording> recording_;
};

}  // namespace detent

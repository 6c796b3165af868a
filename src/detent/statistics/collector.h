#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "detent/core/tensor.h"
#include "detent/core/value.h"
#include "detent/statistics/statistic.h"

namespace detent {

/// Statistics of all values of one operand, in one sweep over the data. Results depend on the values alone,
/// to the last bit: not on batches, order, threads, merging, or on other statistics collected.
///
/// NaN is excluded from statistics, infinities are not; both are counted, and a result that met any has the
/// extra keys `nan_count` and `infinity_count`.
class Collector {
 public:
  /// `statistics` holds for each statistic a table of its options. Throws Error, beginning with `where`, on
  /// an unknown name (with the nearest known one) and on options that are unknown, of the wrong type or out
  /// of range.
  Collector(const Table& statistics, const std::string& where);

  /// Takes float32 values of shape [samples, ...]; rank 0 is one sample. `first_sample` is the index of the
  /// first in the whole data, if known; `record` orders by it. Throws Error on another dtype and, unless a
  /// statistic reduces all dimensions, on samples that differ in shape; some statistics may have taken the
  /// batch then.
  void update(const Tensor& sample_batch, std::optional<int64_t> first_sample = {});
  /// The same, and `post_relu` sees max(x, 0) for each value x (NaN where x is NaN) in the same sweep, which
  /// costs little more than one. It is another collector of the same statistics and options, of which none
  /// records, and has seen as many values.
  void update_with_post_relu(const Tensor& sample_batch, Collector& post_relu);
  /// Whether a statistic records the samples.
  bool records() const;
  /// Whether results stay what they are where the elements of a sample trade places.
  bool takes_any_order() const;
  /// As if this collector had seen everything that `other` saw, which has the same statistics and options.
  void merge(const Collector& other);

  std::vector<std::string> names() const;
  /// Whether nothing was seen.
  bool empty() const;
  /// Names and values in a fixed order; a value is a number, or nested lists of the shape that is kept.
  /// Throws Error when no value, or for a kept position nothing but NaN, was seen.
  Table result(std::string_view statistic) const;
  /// The accumulators of the statistic.
  const Accumulators& accumulators(std::string_view statistic) const;

  /// The state, for another process or a later run.
  std::vector<std::byte> serialize() const;
  /// Replaces the state by one written by a collector of the same statistics and options. Throws Error and
  /// changes nothing if it is damaged, of another version or of other statistics.
  void deserialize(std::span<const std::byte> state);

 private:
  struct Entry {
    std::string name;
    std::unique_ptr<Statistic> statistic;
    size_t group;
  };
  /// Statistics that reduce the same dimensions.
  struct Group {
    Dims dims;
    Needs needs;
  };

  void sweep(const Tensor& sample_batch, std::optional<int64_t> first_sample, Collector* post_relu);
  const Entry& entry(std::string_view statistic) const;
  std::vector<Accumulators> empty_accumulators() const;

  std::vector<Entry> entries_;
  std::vector<Group> groups_;
  std::vector<Accumulators> accumulators_;  // of each group
  std::string signature_;                   // statistics and options
};

/// Every statistic there is.
std::vector<StatisticInfo> all_statistics();

/// Throws the errors of Collector's constructor.
std::unique_ptr<Statistic> make_statistic(std::string_view name, const Table& options,
                                          const std::string& where);

}  // namespace detent

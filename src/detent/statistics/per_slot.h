#pragma once

#include <cmath>
#include <mutex>
#include <vector>

#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/formats/float_environment.h"
#include "detent/statistics/collector.h"
#include "detent/statistics/reduction.h"

namespace detent {

/// A collector that keeps one `Statistic::State` for each kept position. Of `Statistic` it needs
///
///     kName, kHelp, Options            Options has a field `dims`
///     State::add(float, Options)       a value that is not NaN
///     State::merge(State)              exact and commutative, so that cuts and order do not matter
///     result(Options, Reduction, states, count) -> Table
///
/// with `count` the values seen at each kept position, NaN included. Results are only asked for when count > 0.
template <class Statistic>
class PerSlotCollector final : public Collector {
 public:
  static constexpr const char* kName = Statistic::kName;
  static constexpr const char* kHelp = Statistic::kHelp;
  using Options = typename Statistic::Options;
  using State = typename Statistic::State;

  explicit PerSlotCollector(const Options& options) : options_(options), reduction_(options.dims) {}

  std::string_view name() const override { return kName; }

  void update(const Tensor& sample_batch) override {
    check_sample_dtype(sample_batch, kName);
    reduction_.accept(sample_batch);
    states_.resize(reduction_.slots());
    const auto values = sample_batch.values<float>();
    std::mutex mutex;
    parallel_for(sample_batch.numel(), kGrain, [&](int64_t begin, int64_t end) {
      const DefaultFloatEnvironment environment;
      SpecialCounts special;
      const std::vector<State> part = states_of(values, begin, end, special);
      const std::lock_guard lock(mutex);
      merge_states(part);
      special_.merge(special);
    });
    elements_ += sample_batch.numel();
  }

  void merge(const Collector& other) override {
    const auto* same = dynamic_cast<const PerSlotCollector*>(&other);
    DETENT_CHECK(same != nullptr && same != this && same->options_ == options_, "merging {} into {}", other.name(),
                 kName);
    reduction_.accept(same->reduction_);
    states_.resize(reduction_.slots());
    merge_states(same->states_);
    special_.merge(same->special_);
    elements_ += same->elements_;
  }

  Table result() const override {
    if (elements_ == 0) fail("{}: no value was seen", kName);
    const DefaultFloatEnvironment environment;
    const int64_t count = elements_ / static_cast<int64_t>(reduction_.slots());
    Table table = Statistic::result(options_, reduction_, states_, count);
    special_.write(table);
    return table;
  }

 private:
  static constexpr int64_t kGrain = int64_t{1} << 18;

  std::vector<State> states_of(std::span<const float> values, int64_t begin, int64_t end,
                               SpecialCounts& special) const {
    std::vector<State> part(reduction_.slots());
    int64_t position = options_.dims.all ? 0 : begin % reduction_.sample_size();
    for (int64_t i = begin; i < end; ++i) {
      const float value = values[static_cast<size_t>(i)];
      special.infinity += std::isinf(value) ? 1 : 0;
      if (std::isnan(value)) {
        ++special.nan;
      } else {
        part[reduction_.slot(position)].add(value, options_);
      }
      if (!options_.dims.all && ++position == reduction_.sample_size()) position = 0;
    }
    return part;
  }

  void merge_states(const std::vector<State>& part) {
    for (size_t slot = 0; slot < part.size(); ++slot) states_[slot].merge(part[slot]);
  }

  Options options_;
  Reduction reduction_;
  std::vector<State> states_;
  SpecialCounts special_;
  int64_t elements_ = 0;
};

/// Options of a statistic that has only `dims`.
struct DimsOptions {
  Dims dims;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("dims", self.dims, "dimensions that are reduced, beside the samples");
  }
  bool operator==(const DimsOptions&) const = default;
};

/// Options of a statistic of values or, with `abs`, of magnitudes.
struct DimsAbsOptions {
  Dims dims;
  bool abs = false;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("dims", self.dims, "dimensions that are reduced, beside the samples");
    visit("abs", self.abs, "take the magnitudes");
  }
  bool operator==(const DimsAbsOptions&) const = default;
};

}  // namespace detent

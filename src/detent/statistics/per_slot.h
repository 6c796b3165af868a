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
/// with `count` the values seen at each kept position, NaN included. Results are only asked for when count >
/// 0.
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
    seen_.resize(reduction_.slots());
    const auto values = sample_batch.values<float>();
    std::mutex mutex;
    parallel_for(sample_batch.numel(), kGrain, [&](int64_t begin, int64_t end) {
      const DefaultFloatEnvironment environment;
      const Seen part = seen_in(values, begin, end);
      const std::lock_guard lock(mutex);
      seen_.merge(part);
    });
    elements_ += sample_batch.numel();
  }

  void merge(const Collector& other) override {
    const auto* same = dynamic_cast<const PerSlotCollector*>(&other);
    DETENT_CHECK(same != nullptr && same != this && same->options_ == options_, "merging {} into {}",
                 other.name(), kName);
    reduction_.accept(same->reduction_);
    seen_.resize(reduction_.slots());
    seen_.merge(same->seen_);
    elements_ += same->elements_;
  }

  Table result() const override {
    if (elements_ == 0) fail("{}: no value was seen", kName);
    const size_t slots = reduction_.slots();
    for (size_t slot = 0; slot < slots; ++slot) {
      if (seen_.counts[slot] == 0)
        fail("{}: only NaN was seen at kept position {} of {}", kName, slot, slots);
    }
    const DefaultFloatEnvironment environment;
    Table table =
        Statistic::result(options_, reduction_, seen_.states, elements_ / static_cast<int64_t>(slots));
    seen_.special.write(table);
    return table;
  }

 private:
  static constexpr int64_t kGrain = int64_t{1} << 18;

  struct Seen {
    std::vector<State> states;    // of each kept position
    std::vector<int64_t> counts;  // values that are not NaN
    SpecialCounts special;

    void resize(size_t slots) {
      states.resize(slots);
      counts.resize(slots);
    }
    void merge(const Seen& other) {
      for (size_t slot = 0; slot < other.states.size(); ++slot) {
        states[slot].merge(other.states[slot]);
        counts[slot] += other.counts[slot];
      }
      special.merge(other.special);
    }
  };

  Seen seen_in(std::span<const float> values, int64_t begin, int64_t end) const {
    Seen part;
    part.resize(reduction_.slots());
    int64_t position = options_.dims.all ? 0 : begin % reduction_.sample_size();
    for (int64_t i = begin; i < end; ++i) {
      const float value = values[static_cast<size_t>(i)];
      const size_t slot = reduction_.slot(position);
      part.special.infinity += std::isinf(value) ? 1 : 0;
      if (std::isnan(value)) {
        ++part.special.nan;
      } else {
        part.states[slot].add(value, options_);
        ++part.counts[slot];
      }
      if (!options_.dims.all && ++position == reduction_.sample_size()) position = 0;
    }
    return part;
  }

  Options options_;
  Reduction reduction_;
  Seen seen_;
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

}  // namespace detent

#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "detent/core/process_group.h"
#include "detent/search/candidate_networks.h"
#include "detent/search/costs.h"
#include "detent/search/journal.h"
#include "detent/search/judge.h"
#include "detent/search/objective.h"
#include "detent/search/shared_runs.h"

namespace detent {

/// Two numbers; smaller is better.
struct CostAndLoss {
  double cost = 0;
  double loss = 0;

  bool operator==(const CostAndLoss&) const = default;
};

/// Indices of the points that no other dominates, nowhere worse and somewhere better, by ascending cost; of
/// equal points the first. Points that are not finite are on no front, and last of all.
std::vector<size_t> pareto_front(std::span<const CostAndLoss> points);

/// For each point, how many fronts have to be taken away before it is on one (Deb et al. 2002, NSGA-II).
std::vector<int> front_ranks(std::span<const CostAndLoss> points);

/// All points, the better ones first: by rank, and within a front those first whose neighbours are farther
/// away, relative to the front's extent (crowding distance).
std::vector<size_t> best_first(std::span<const CostAndLoss> points);

/// At most `count` of `front`, which is sorted by cost: the first, the last, and those between that lie
/// closest to even steps of the logarithm of the cost.
std::vector<size_t> spread(std::span<const CostAndLoss> front, size_t count);

/// A network that was measured.
struct Trial {
  Assignment assignment;
  Quality quality;
  Costs costs;
  bool improved = false;  // by passes that choose better weights
};

/// Limits of a search.
struct StudyLimits {
  double evaluations = 0;  // runs of whole networks over all samples; parts count as such
  std::optional<std::chrono::steady_clock::time_point> deadline;
};

/// All that a strategy sees: the choices, and their measurements. Measurements are journaled, spread
/// over the workers, and the same whatever their number. When the search is to end (the evaluations are
/// spent, the time is up, a signal has come), they return nothing, and the strategy returns.
class Study {
 public:
  struct Parts {
    const CandidateNetworks& networks;
    const CostModel& model;
    const Judge& judge;
    const SharedRuns& shared;
    const SearchObjective& objective;
    Journal& journal;
    ProcessGroup& group;
    std::function<double(const Graph&)> latency;  // seconds for a sample
    std::function<void()> after_trials = [] {};   // new ones are there
  };

  Study(Parts parts, StudyLimits limits, uint64_t seed);

  const SearchSpace& space() const { return parts_.networks.space(); }
  const CostModel& model() const { return parts_.model; }
  const SearchObjective& objective() const { return parts_.objective; }
  const CandidateNetworks& networks() const { return parts_.networks; }
  const SharedRuns& shared() const { return parts_.shared; }
  int64_t samples() const { return parts_.judge.samples(); }
  uint64_t seed() const { return seed_; }
  double cost(const Assignment& assignment) const { return model().value(assignment, objective().cost()); }

  /// Measures over the first `samples`, in order; those of all samples become trials. What networks have in
  /// common before they part is run, and counts, once. Empty when the search is to end.
  std::vector<Trial> measure(const std::vector<Assignment>& assignments, int64_t samples);
  std::vector<Trial> measure(const std::vector<Assignment>& assignments) {
    return measure(assignments, samples());
  }
  /// The share that `samples` are of a run over all.
  double share_of(int64_t samples) const {
    return static_cast<double>(samples) / static_cast<double>(this->samples());
  }

  /// Distortion of `base` and of its variants. `key` says what they are. Empty when the search is to end.
  std::vector<double> measure_variants(const std::string& key, const Graph& base,
                                       const std::function<std::vector<Variant>()>& variants, size_t count,
                                       int64_t samples);

  /// Trials of which the journal has the numbers under `prefix` and the assignment.
  std::vector<Trial> journaled(const std::string& prefix, bool improved) const;
  /// The best trial of the journal, which may be of an earlier process; `improved_prefix`: of those that were
  /// improved.
  std::optional<Trial> best_of_journal(const std::string& improved_prefix) const;
  /// Whether the first is closer to the objective.
  bool is_better(const Trial& trial, const Trial& than) const {
    return objective().is_better(trial.quality, trial.costs, than.quality, than.costs);
  }
  /// Adds the trial of a network that passes have changed.
  void add_improved(Trial trial);
  Quality judge_improved(const Graph& graph);
  Journal& journal() { return parts_.journal; }
  /// A trial's numbers in the journal: its quality, and seconds per sample or -1.
  static constexpr size_t kTrialNumbers = 7;
  Trial trial_of(const Assignment& assignment, const std::vector<double>& numbers,
                 const std::string& key) const;
  double latency(const Graph& graph) const { return parts_.latency(graph); }

  const std::vector<Trial>& trials() const { return trials_; }
  /// The one nearest to the objective; nullptr before the first.
  const Trial* best() const;
  /// The trials that no other beats, by ascending cost.
  std::vector<const Trial*> front() const;
  CostAndLoss point(const Trial& trial) const;

  double spent() const { return spent_; }
  double left() const { return limits_.evaluations - spent_; }
  /// The evaluations were not enough for what was asked for last.
  bool is_spent() const { return is_spent_; }
  /// As many samples, but at least 8, as `count` variants take no more than `share` of what is left for: of
  /// the evaluations, and of the time as far as runs have shown how long they take. The same again where the
  /// journal has it for this key of measure_variants.
  int64_t affordable_samples(const std::string& key, int64_t most, size_t count, double share);
  /// The first worker's decision by the remaining time, or the journal's in a resumed search.
  double decided(const std::string& key, double number);
  /// Seconds until the measurements end.
  double seconds_left() const;
  /// Whether measuring is over; all workers say the same.
  bool ended() const { return ended_; }
  void set_deadline(std::optional<std::chrono::steady_clock::time_point> deadline) {
    limits_.deadline = deadline;
  }
  /// The first worker's value, since time differs by worker.
  std::vector<double> of_first(const std::vector<double>& numbers);
  /// Ends the study where a worker has got a signal or its time is up: what one sees, all obey.
  bool shall_end();
  /// After the strategy has returned, for what is left to do.
  void go_on() { ended_ = false; }
  /// The signal that came, or 0; whether the time is up.
  bool is_stopped() const;

 private:
  bool charge(const std::string& key, double evaluations);
  /// The assignments that the remaining evaluations allow.
  std::vector<Assignment> charged(const std::vector<Assignment>& assignments, int64_t samples);
  bool run_missing(const std::vector<Assignment>& assignments, int64_t samples);
  bool run_family(const std::vector<Assignment>& assignments, const RunFamily& family, int64_t samples);
  void note_time(double runs, std::chrono::steady_clock::time_point start);
  std::vector<double> latencies(const std::vector<const Graph*>& graphs);

  Parts parts_;
  StudyLimits limits_;
  uint64_t seed_;
  double spent_ = 0;
  bool ended_ = false;
  bool is_spent_ = false;
  double timed_runs_ = 0;  // of whole networks over all samples, and how long these took
  double timed_seconds_ = 0;
  int idle_ = 0;  // calls that measured nothing new
  std::set<std::string> charged_;
  std::vector<Trial> trials_;
};

}  // namespace detent

#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "detent/search/study.h"
#include "detent/search/surrogate.h"

namespace detent {

/// Fills the front with networks near those on it. What sensitivities and measurements predict to be likely
/// on the front is looked at on few samples, and the likeliest are measured on all, in families that begin
/// alike: the last layers of a network can so be varied for a fraction of a run.
class FrontCover {
 public:
  FrontCover(Study& study, const Sensitivities& sensitivities);

  /// Networks to begin from beside those that are measured.
  void add_starts(std::vector<Assignment> starts);
  /// Looks at these on few samples.
  void screen(const std::vector<Assignment>& assignments);
  /// One round, of some evaluations. `costs`: only networks whose cost lies between. False where no network
  /// is likely enough to be on the front.
  bool round(std::pair<double, double> costs);

 private:
  struct Candidate {
    Assignment assignment;
    double worth;  // the probability to be on the front; where not all are looked at, more in its gaps
  };
  /// Costs that ascend and logarithms of the least distortion that is known up to each.
  using Steps = std::vector<std::pair<double, double>>;

  static double below(const Steps& steps, double cost);
  static double gap_worth(const Steps& front, double cost);
  Steps measured_front() const;
  void see_trials();
  bool is_measured(const Assignment& assignment) const { return measured_.contains(assignment); }
  std::vector<Assignment> members() const;
  std::vector<Candidate> candidates(std::pair<double, double> costs) const;
  std::vector<Assignment> best_family(const std::vector<Candidate>& candidates) const;
  std::pair<double, double> family_worth(const std::vector<Candidate>& candidates, size_t first,
                                         std::vector<Assignment>& family) const;

  Study& study_;
  Surrogate surrogate_;
  std::vector<Assignment> starts_;
  std::map<Assignment, double> measured_;  // logarithms of distortions, on all samples
  std::map<Assignment, double> screened_;  // on few
  size_t seen_trials_ = 0;
  /// How many times farther than predictions have missed so far networks may be from them: more when none is
  /// likely otherwise.
  double doubt_ = 1;
};

}  // namespace detent

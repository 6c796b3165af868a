#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "detent/passes/pass.h"
#include "detent/search/sensitivities.h"
#include "detent/search/study.h"

namespace detent {

/// Runs passes that choose better weights on the networks that a search ends with.
class Winners {
 public:
  Winners(Study& study, const SearchOptions& options, const PassContext& context);

  /// Whether there are such passes and networks to try them on.
  bool has_passes() const { return !passes_.empty(); }
  /// How many samples they look at; options.num_samples at first.
  void set_samples(int64_t samples);
  /// Seconds that the last one took; 0 where the journal had all.
  double seconds() const { return seconds_; }

  /// Where an earlier process has found a better network than this, it is taken.
  void recall();
  /// Prefix of improved networks' keys in the journal.
  std::string journal_prefix() const;
  /// The trial of the improved network; nullptr, and no such passes any more, where they do not fit it.
  const Trial* improve(const Assignment& assignment);
  /// The network of an improved trial.
  Graph network(const Assignment& assignment);

  /// Where quality is bounded: the cheapest of the predicted and measured networks that is good enough once
  /// it is improved, by bisection of the cost. Else the best ones that were measured. Ends where `goes_on`
  /// says so.
  void improve_best(const Sensitivities& found, const std::function<bool()>& goes_on);

 private:
  void bisect(const Sensitivities& found, const std::function<bool()>& goes_on);
  Assignment at_cost(double cost, const std::optional<PredictedFront>& predicted) const;
  std::vector<Assignment> next_ones() const;
  const Trial* find_improved(const Assignment& assignment) const;

  Study& study_;
  PassContext context_;
  std::function<void(const std::string&)> warn_;
  Table passes_;
  bool rounds_ = false;  // whether one of them chooses the values of weights
  double seconds_ = 0;
  std::map<Assignment, Graph> networks_;
};

}  // namespace detent

#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "detent/passes/pass.h"
#include "detent/search/report.h"
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

/// The files that a search leaves. Those of new points are written before the report that names them, and
/// those that it no longer names are removed after it, so that a killed process leaves a report whose files
/// exist.
class SearchFiles {
 public:
  SearchFiles(std::filesystem::path folder, const SearchOptions& options, const Quality& reference);

  /// At once, or, unless `must`, where some seconds have passed since.
  void write(const Study& study, const Sensitivities& found, Winners& winners, const std::string& state,
             bool must);
  std::filesystem::path folder() const { return folder_; }

 private:
  void write_point(const Study& study, const Trial& trial, Winners& winners);
  void remove_others(const SearchReport& report) const;

  std::filesystem::path folder_;
  std::string strategy_;
  size_t most_;
  Quality reference_;
  std::string best_;  // the point that best.mz is
  std::chrono::steady_clock::time_point next_;
};

}  // namespace detent

#pragma once

#include <optional>
#include <string>

#include "detent/search/costs.h"
#include "detent/search/options.h"
#include "detent/search/quality.h"

namespace detent {

/// The user's goal: bounds, and the figure to optimize within them. Where quality is bounded, the cost is
/// minimized, else the quality maximized.
class SearchObjective {
 public:
  /// Throws Error, beginning with `where`, where labels are missing, and on bounds that no assignment meets.
  SearchObjective(const SearchOptions& options, const Quality& reference, bool has_labels,
                  const CostModel& model, const SearchSpace& space, const std::string& where);

  QualityKind quality() const { return quality_; }
  CostKind cost() const { return cost_; }
  bool bounds_quality() const { return max_drop_.has_value() || min_sqnr_.has_value(); }
  bool needs_latency() const { return max_latency_.has_value() || cost_ == CostKind::kLatency; }

  bool meets_quality(const Quality& quality) const;
  bool meets_costs(const Costs& costs) const;
  /// Points of accuracy below the float network.
  double drop(const Quality& quality) const;
  /// Tells networks of equal accuracy on few samples apart.
  double distortion(const Quality& quality) const {
    return quality_ == QualityKind::kSqnr ? quality.loss(quality_) : quality.distortion();
  }
  double loss(const Quality& quality) const { return quality.loss(quality_); }

  /// Whether the first of two networks is closer to the objective.
  bool is_better(const Quality& quality, const Costs& costs, const Quality& than_quality,
                 const Costs& than_costs) const;
  /// "at most 0.50 points below the float network, fewest bytes"
  std::string text() const;

 private:
  void check_bounds(const CostModel& model, const SearchSpace& space, const std::string& where) const;

  Quality reference_;
  QualityKind quality_;
  CostKind cost_;
  std::optional<double> max_drop_;
  std::optional<double> min_sqnr_;
  std::optional<int64_t> max_bytes_;
  std::optional<double> max_bits_;
  std::optional<double> max_latency_;
};

}  // namespace detent

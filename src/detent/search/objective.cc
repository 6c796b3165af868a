#include "detent/search/objective.h"

#include <vector>

#include <fmt/ranges.h>

#include "detent/core/error.h"

namespace detent {
namespace {

constexpr double kPoint = 100;  // points in an accuracy of 1

}  // namespace

SearchObjective::SearchObjective(const SearchOptions& options, const Quality& reference, bool has_labels,
                                 const CostModel& model, const SearchSpace& space, const std::string& where)
    : reference_(reference),
      quality_(options.quality),
      cost_(options.cost),
      max_drop_(options.max_drop),
      min_sqnr_(options.min_sqnr),
      max_bits_(options.max_bits) {
  if (options.max_bytes) max_bytes_ = options.max_bytes->bytes;
  if (options.max_latency) max_latency_ = options.max_latency->seconds;
  if (!has_labels && (max_drop_ || quality_ == QualityKind::kAccuracy)) {
    fail(
        "{}: {} needs labels, and the samples have none: give --labels FILE, or bound the SQNR (--min-sqnr "
        "25), "
        "which needs no labels",
        where, max_drop_ ? "max_drop" : "quality = \"accuracy\"");
  }
  if (quality_ == QualityKind::kAuto) quality_ = has_labels ? QualityKind::kAccuracy : QualityKind::kSqnr;
  const bool bounds_cost = max_bytes_ || max_bits_ || max_latency_;
  if (!bounds_quality() && !bounds_cost) {
    if (!has_labels) {
      fail(
          "{}: nothing is asked for: give --min-sqnr 25, --max-bytes 300k, --max-bits 4.5 or --max-latency "
          "2ms "
          "(--max-drop needs labels, and the samples have none)",
          where);
    }
    constexpr double kUsualDrop = 0.5;
    max_drop_ = kUsualDrop;
  }
  check_bounds(model, space, where);
}

void SearchObjective::check_bounds(const CostModel& model, const SearchSpace& space,
                                   const std::string& where) const {
  const Costs least = model.costs(space.smallest());
  const char* const ways = "choose a larger one, or give smaller formats (--weights int2,int3,...)";
  if (max_bytes_ && least.bytes > *max_bytes_) {
    fail("{}: max_bytes = {}, but with the smallest formats the weights take {} bytes: {}", where,
         *max_bytes_, least.bytes, ways);
  }
  if (max_bits_ && least.weight_bits > *max_bits_) {
    fail(
        "{}: max_bits = {}, but with the smallest formats a weight takes {:.3f} bits, scales and biases "
        "counted: {}",
        where, *max_bits_, least.weight_bits, ways);
  }
  if (max_drop_ && kPoint * reference_.accuracy() - *max_drop_ > kPoint) {
    fail("{}: max_drop = {}, but the float network has {:.2f} % of at most 100 %", where, *max_drop_,
         kPoint * reference_.accuracy());
  }
}

double SearchObjective::drop(const Quality& quality) const {
  return kPoint * (reference_.accuracy() - quality.accuracy());
}

bool SearchObjective::meets_quality(const Quality& quality) const {
  if (!quality.is_finite()) return false;
  constexpr double kRounding = 1e-9;  // of two shares of whole numbers
  if (!quality.is_finite() || (max_drop_ && drop(quality) > *max_drop_ + kRounding)) return false;
  return !min_sqnr_ || quality.sqnr_db() >= *min_sqnr_;
}

bool SearchObjective::meets_costs(const Costs& costs) const {
  if (max_bytes_ && costs.bytes > *max_bytes_) return false;
  if (max_bits_ && costs.weight_bits > *max_bits_) return false;
  return !max_latency_ || costs.latency.value_or(0) <= *max_latency_;
}

bool SearchObjective::is_better(const Quality& quality, const Costs& costs, const Quality& than_quality,
                                const Costs& than_costs) const {
  if (quality.is_finite() != than_quality.is_finite()) return quality.is_finite();
  const bool in_bounds = meets_costs(costs);
  const bool than_in_bounds = meets_costs(than_costs);
  if (in_bounds != than_in_bounds) return in_bounds;
  const double cost = costs.value(cost_);
  const double than_cost = than_costs.value(cost_);
  if (!in_bounds) return cost < than_cost;
  const bool good = meets_quality(quality);
  const bool than_good = meets_quality(than_quality);
  if (good != than_good) return good;
  const bool prefers_cost = bounds_quality() && good;
  if (prefers_cost && cost != than_cost) return cost < than_cost;
  const double gain = loss(than_quality) - loss(quality);
  return gain > 0 || (gain == 0 && cost < than_cost);
}

std::string SearchObjective::text() const {
  std::vector<std::string> parts;
  if (max_drop_) parts.push_back(fmt::format("at most {} points below the float network", *max_drop_));
  if (min_sqnr_) parts.push_back(fmt::format("an SQNR of at least {} dB", *min_sqnr_));
  if (max_bytes_) parts.push_back(fmt::format("at most {} bytes", *max_bytes_));
  if (max_bits_) parts.push_back(fmt::format("at most {} bits a weight", *max_bits_));
  if (max_latency_) parts.push_back(fmt::format("at most {} ms a sample", *max_latency_ * 1e3));
  const std::string cost = enum_name(cost_);
  parts.push_back(bounds_quality()                     ? "least " + cost
                  : quality_ == QualityKind::kAccuracy ? "best accuracy"
                                                       : "best SQNR");
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace detent

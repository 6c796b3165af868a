#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "detent/core/fields.h"
#include "detent/formats/covering.h"
#include "detent/formats/float_bits.h"
#include "detent/formats/group.h"

namespace detent {

/// What the kernel needs: sign(x) * alpha where |x| > delta, else 0.
struct TernaryParameters {
  float delta;
  float alpha;
  Interval unsaturated;  // inputs
};

/// -1, 0, +1, times a scale alpha per group when `scaling_factor` (Li et al. 2016, arXiv:1605.04711).
/// +1 above delta, -1 below -delta, else 0. delta is the first that is given of `threshold`, 0.75 * `mean`,
/// 0.05 * `max`, 0.75 * `median`; else 0.75 * mean|x| of the group. alpha = mean of |x| over |x| > delta, 0
/// where nothing is above. A delta that is not above 0 is an error. Means are of the finite elements;
/// infinities give
/// +-alpha, NaN stays.
struct Ternary {
  static constexpr const char* kName = "ternary";
  static constexpr std::array<const char*, 0> kAliases = {};
  static constexpr const char* kHelp = "-1, 0, +1, optionally times a scale";
  using Parameters = TernaryParameters;
  static constexpr bool kRangePerChannel = false;

  int width = 2;
  int frac_width = 0;
  bool scaling_factor = false;
  std::optional<float> threshold = std::nullopt;
  std::optional<float> mean = std::nullopt;
  std::optional<float> median = std::nullopt;
  std::optional<float> max = std::nullopt;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("width", self.width, "bits a code; always 2", Between{2, 2});
    visit("scaling_factor", self.scaling_factor, "multiply by the mean |x| of what is above the threshold");
    visit("mean", self.mean, "mean of |x|: threshold 0.75 * mean");
    visit("median", self.median, "median of |x|: threshold 0.75 * median");
    visit("max", self.max, "largest |x|: threshold 0.05 * max");
    visit("threshold", self.threshold, "the threshold itself");
    visit("frac_width", self.frac_width, "bits behind the point; always 0", Between{0, 0});
  }

  /// With the threshold 0.05 * max of the largest magnitude in `ranges`.
  Ternary covering(std::span<const Interval> ranges, ScaleForm /*form*/) const {
    Ternary result = *this;
    result.threshold = result.mean = result.median = std::nullopt;
    result.max = static_cast<float>(format_detail::largest_magnitude(ranges));
    return result;
  }

  double bits() const { return width; }
  bool groups_are_channels() const { return false; }
  const char* channel_conflict() const { return nullptr; }
  /// Throws Error when the given statistic leads to a threshold that is not above 0.
  void validate(const std::string& where) const;
  /// Throws Error when the values depend on the data.
  std::vector<float> values(const std::string& where) const {
    if (scaling_factor) fail("{}: the values depend on the data, because scaling_factor is true", where);
    return {-1.0F, 0.0F, 1.0F};
  }
  Parameters parameters(const Group& group, uint64_t seed) const;

  bool operator==(const Ternary&) const = default;

 private:
  /// A threshold, exact in double, and where it comes from.
  struct Threshold {
    double value;
    const char* key;
    float statistic;
    const char* formula;
    const char* advice;
  };
  std::optional<Threshold> given_threshold() const;
};

inline std::optional<Ternary::Threshold> Ternary::given_threshold() const {
  const auto from = [](double factor, float statistic, const char* key, const char* formula,
                       const char* advice) {
    return Threshold{factor * static_cast<double>(statistic), key, statistic, formula, advice};
  };
  if (threshold) return from(1, *threshold, "threshold", "threshold", "give a positive one");
  if (mean) return from(0.75, *mean, "mean", "0.75 * mean", "collect abs_mean over data that is not all 0");
  if (max) {
    return from(0.05, *max, "max", "0.05 * max",
                "collect range_min_max with abs = true over data that is not all 0");
  }
  if (median) {
    return from(
        0.75, *median, "median", "0.75 * median",
        "half of the values or more are 0: collect abs_mean (key \"mean\") or range_min_max with abs = true "
        "(key \"max\")");
  }
  return std::nullopt;
}

inline void Ternary::validate(const std::string& where) const {
  const std::optional<Threshold> given = given_threshold();
  if (!given || (given->value > 0 && given->value <= std::numeric_limits<double>::max())) return;
  fail("{}: key \"{}\": got {}, which gives the threshold {} = {}, expected one above 0 and finite; {}",
       where, given->key, float_text(static_cast<double>(given->statistic)), given->formula,
       float_text(given->value), given->advice);
}

// |x| > delta is decided as in exact arithmetic: for float32 x it holds for a double delta just when it holds
// for the largest float32 not above delta.
inline Ternary::Parameters Ternary::parameters(const Group& group, uint64_t /*seed*/) const {
  const std::optional<Threshold> given = given_threshold();
  const double exact = given ? given->value : 0.75 * group.magnitudes().mean();
  if (!(exact > 0)) {
    fail(
        "ternary: the mean |x| of {} itself ({} elements) is 0, so the threshold 0.75 * mean is not above 0; "
        "give "
        "\"threshold\", or collect abs_mean (key \"mean\") or range_min_max with abs = true (key \"max\") "
        "over "
        "data that is not all 0",
        group.name(), group.element_count());
  }
  const float delta = round_down(exact);
  const float alpha = scaling_factor ? static_cast<float>(group.magnitudes_above(delta).mean()) : 1.0F;
  const float largest = std::max(alpha, delta);
  return {.delta = delta, .alpha = alpha, .unsaturated = {-largest, largest}};
}

}  // namespace detent

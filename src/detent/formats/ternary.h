#pragma once

#include <optional>

#include "detent/core/fields.h"

namespace detent {

/// -1, 0, +1, times a scale alpha per group when `scaling_factor` (Li et al. 2016, arXiv:1605.04711).
/// +1 above delta, -1 below -delta, else 0. delta is the first that is given of `threshold`, 0.75 * `mean`,
/// 0.05 * `max`, 0.75 * `median`; else 0.75 * mean|x| of the group. alpha = mean of |x| over |x| > delta, 0 where
/// nothing is above. A delta that is not above 0 is an error.
struct Ternary {
  static constexpr const char* kName = "ternary";
  static constexpr const char* kHelp = "-1, 0, +1, optionally times a scale";

  int width = 2;
  int frac_width = 0;
  bool scaling_factor = false;
  std::optional<float> threshold;
  std::optional<float> mean;
  std::optional<float> median;
  std::optional<float> max;

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

  bool operator==(const Ternary&) const = default;
};

}  // namespace detent

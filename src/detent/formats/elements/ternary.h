#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "detent/core/fields.h"
#include "detent/formats/elements/element.h"
#include "detent/formats/elements/qparams_from_range.h"
#include "detent/formats/float_bits.h"

namespace detent {

/// Parameters of the kernel: sign(x) * alpha where |x| > delta, else 0.
struct TernaryParameters {
  float delta;
  float alpha;

  /// Nothing is above where alpha is 0: there is one zero, +0.
  std::array<float, 2> lanes() const {
    return {alpha > 0 ? delta : std::numeric_limits<float>::infinity(), alpha};
  }
  static ElementKernels<TernaryParameters> kernels();
};

/// -1, 0, +1, times a scale alpha per group when `scaling_factor` (Li et al. 2016, arXiv:1605.04711).
/// +1 above delta, -1 below -delta, else 0. delta is the first that is given of `threshold`, 0.75 * `mean`,
/// 0.05 * `max`, 0.75 * `median`; else 0.75 * mean|x| of the group. alpha = mean of |x| over |x| > delta, 0
/// where nothing is above. A delta that is not above 0 is an error, except in a group of zeros among
/// others, such as a pruned channel, which stay zeros. Means are of the finite elements; infinities give
/// +-alpha, NaN stays.
struct Ternary {
  static constexpr const char* kName = "ternary";
  static constexpr std::array<const char*, 0> kAliases = {};
  static constexpr const char* kHelp = "-1, 0, +1, optionally times a scale";
  using Parameters = TernaryParameters;
  static constexpr bool kRangePerChannel = false;
  static constexpr bool kHasNan = false;

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
    visit("frac_width", self.frac_width, "bits after the point; always 0", Between{0, 0});
  }

  /// With the threshold 0.05 * max of the largest magnitude in `ranges`.
  Ternary qparams_from_range(std::span<const Interval> ranges, ScaleForm form) const;

  double bits() const { return width; }
  bool groups_are_channels() const { return false; }
  const char* channel_conflict() const { return nullptr; }
  /// Throws Error when the given statistic leads to a threshold that is not above 0.
  void validate(const std::string& where) const;
  /// Throws Error when the values depend on the data.
  std::vector<float> values(const std::string& where) const;
  Parameters parameters(const Group& group, uint64_t seed) const;
  std::vector<ParameterStream> streams() const;
  void store(const Parameters& group, double* numbers) const;
  Parameters stored_parameters(const double* numbers) const;
  Interval unsaturated(const Parameters& group) const;

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

}  // namespace detent

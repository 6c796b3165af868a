#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "detent/core/fields.h"
#include "detent/core/tensor.h"
#include "detent/formats/quant_spec.h"
#include "detent/statistics/distribution.h"

namespace detent {

/// The rule that chooses the range that a format holds; values outside saturate.
///
///     min_max        the smallest and the largest value
///     percentile     the quantiles 1 - p and p
///     average_range  the means of the samples' smallest and largest values
///     n_sigma        mean -+ n standard deviations, as far as there are values
///     mse            the range with the least mean squared error, searched with the format itself
///     entropy        the range that loses least information: smallest Kullback-Leibler divergence of the
///                    quantized from the clipped distribution, over 2048 bins (Migacz 2017, "8-bit Inference
///                    with TensorRT")
enum class Calibrator { kMinMax, kPercentile, kAverageRange, kNSigma, kMse, kEntropy };
constexpr std::array<const char*, 6> enum_names(Calibrator) {
  return {"min_max", "percentile", "average_range", "n_sigma", "mse", "entropy"};
}

struct CalibrationOptions {
  Calibrator calibrator = Calibrator::kMinMax;
  double percentile = 99.9;
  double num_sigma = 3;
  ScaleForm scale_form = ScaleForm::kFloat;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& visit) {
    visit("calibrator", self.calibrator, "how ranges are chosen");
    visit("percentile", self.percentile, "percentile: percent of the values up to the upper end",
          Between{50, 100});
    visit("num_sigma", self.num_sigma, "n_sigma: standard deviations on each side", Between{0, 1e6});
    visit("scale_form", self.scale_form, "scales of any float32, or powers of two");
  }
  bool operator==(const CalibrationOptions&) const = default;
};

/// Throws Error naming a key that only a calibrator reads which is neither that of the options nor of
/// `others`.
void check_calibration(const CalibrationOptions& options, std::span<const Calibrator> others,
                       const std::string& where);

/// The statistic of a tensor by which it chooses, beside range_min_max.
const char* statistic_of(Calibrator calibrator);

/// `spec` with the parameters of its format that depend on the data: frac_width of fixed, scale and
/// zero_point of affine, exponent_bias of minifloats and log, threshold or max of ternary, gamma of
/// binary_residual (mse only). `parts` is one distribution for granularity tensor, one a channel in order for
/// granularity channel. The result depends on the distributions alone. Throws Error, beginning with `where`,
/// on a format without such parameters, on distributions without values, and on those that lack what the
/// calibrator needs (naming the statistic that gives it).
QuantSpec calibrate(const QuantSpec& spec, std::span<const Distribution> parts,
                    const CalibrationOptions& options, const std::string& where);

/// Distribution of the weights of each group (tensor, channel, part of a channel) of `spec`, in order, as
/// needed by `calibrator`. Throws Error beginning with `where` on weights that are not finite.
std::vector<Distribution> weight_distributions(const Tensor& weight, const QuantSpec& spec,
                                               Calibrator calibrator, const std::string& where);

/// The range chosen by the calibrator; for mse and entropy, for the format of `spec`.
Interval clipping_range(const Format& format, const Distribution& distribution,
                        const CalibrationOptions& options, const std::string& where);

}  // namespace detent

// Calibration of data that is far from what layers usually hold: of one sign and away from 0, constant, tiny,
// huge; and of few values. Every calibrator, every format that takes a range.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "detent/core/error.h"
#include "detent/core/sanitizers_for_test.h"
#include "detent/formats/groups/calibrating.h"
#include "detent/formats/packing/encode.h"
#include "detent/statistics/calibration.h"
#include "detent/statistics/range_search.h"

namespace detent {
namespace {

constexpr float kMax = std::numeric_limits<float>::max();
constexpr float kLeast = std::numeric_limits<float>::denorm_min();

const char* const kSpecs[] = {
    "fixed:width=8",
    "fixed:width=4,signed=false",
    "fixed:width=16,rounding=floor",
    "ternary",
    "ternary:scaling_factor=true",
    "affine",
    "affine:width=2",
    "affine:width=4,signed=false",
    "affine:width=8,symmetric=true",
    "affine:width=3,symmetric=true,narrow_range=true",
    "affine:width=16,signed=false,narrow_range=true",
    "minifloat_ieee",
    "minifloat_ieee:width=4,exponent_width=3",
    "minifloat_denorm",
    "log",
    "log:width=4",
    "scaled",
    "scaled:element=fp4_e2m1",
    "codebook16",
    "binary_residual",
};

struct Data {
  std::string name;
  std::vector<float> values;
};

std::vector<float> narrow_values(float mean, float deviation, size_t count = 500) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> values(count);
  for (float& value : values) value = mean + deviation * std::clamp(normal(random), -4.0F, 4.0F);
  return values;
}

std::vector<Data> all_data() {
  std::vector<Data> data = {{"one value", {3}}, {"least and largest", {-kMax, -kLeast, kLeast, kMax}}};
  for (const float sign : {1.0F, -1.0F}) {
    const auto add = [&](const char* name, std::vector<float> values) {
      for (float& value : values) value *= sign;
      data.push_back({fmt::format("{} * {}", sign, name), std::move(values)});
    };
    add("shifted", narrow_values(4, 0.9F));
    add("far from 0", narrow_values(1000, 1));
    add("with an outlier", [] {
      std::vector<float> values = narrow_values(4, 0.5F);
      values.push_back(700);
      return values;
    }());
    add("constant", std::vector<float>(100, 0.1F));
    add("two values", {2, 5, 5, 5});
    add("zeros and one sign", {0, 0, 0, 1, 2, 3});
    add("tiny", narrow_values(1e-40F, 1e-41F));
    add("tiny constant", std::vector<float>(10, 1e-43F));
    add("least", {kLeast, kLeast});
    add("huge", narrow_values(kMax / 8, kMax / 64));
    add("largest", {kMax, kMax, kMax / 2});
  }
  for (const float scale : {1e-44F, 1e-38F, 1e-3F, 1e3F, kMax / 8})
    data.push_back({fmt::format("both signs * {}", scale), narrow_values(0, scale)});
  return data;
}

constexpr Calibrator kCalibrators[] = {Calibrator::kMinMax,       Calibrator::kPercentile,
                                       Calibrator::kAverageRange, Calibrator::kNSigma,
                                       Calibrator::kMse,          Calibrator::kEntropy};

struct Case {
  std::string name;
  QuantSpec spec;
  Distribution distribution;
  CalibrationOptions options;
};

/// Calls check(case) for all of data x format x calibrator x form of scales.
template <class Check>
void for_each_case(const Check& check) {
  int number = 0;
  for (const auto& [data_name, values] : all_data()) {
    Distribution distribution = Distribution::of(values);
    distribution.average_range = distribution.range;
    for (const char* text : kSpecs) {
      const QuantSpec spec = parse_quant_spec_text(text);
      for (const Calibrator calibrator : kCalibrators) {
        if (is_fitted(spec.format) && calibrator != Calibrator::kMse) continue;
        for (const ScaleForm form : {ScaleForm::kFloat, ScaleForm::kPowerOfTwo}) {
          if (++number % 4 != 0 && kSanitizersTakeMemory) continue;
          CalibrationOptions options{.calibrator = calibrator};
          options.scale_form = form;
          check(Case{fmt::format("{}, {}, {}, {}", data_name, text, enum_name(calibrator), enum_name(form)),
                     spec, distribution, options});
        }
      }
    }
  }
}

double squared_error_of(const Format& format, const Distribution& distribution) {
  return FormatError(distribution).squared(format);
}

TEST(CalibrationOfAnyData, GivesAFormatThatTakesThisData) {
  for_each_case([](const Case& c) {
    SCOPED_TRACE(c.name);
    const QuantSpec spec = calibrate(c.spec, {&c.distribution, 1}, c.options, "test");
    EXPECT_NO_THROW(validate(spec, "test"));
    std::vector<float> values;
    for (const auto& bin : c.distribution.bins) values.push_back(bin.value);
    const Tensor input = Tensor::from<float>({static_cast<int64_t>(values.size())}, values);
    const Tensor simulated = fake_quantize(spec, input);
    for (const float value : simulated.values<float>()) ASSERT_TRUE(std::isfinite(value)) << value;
    ASSERT_TRUE(std::ranges::equal(decode(encode(spec, input)).values<float>(), simulated.values<float>()));
    if (is_fitted(spec.format)) return;
    const Interval range = clipping_range(c.spec.format, c.distribution, c.options, "test");
    EXPECT_LE(range.low, range.high);
  });
}

/// The search is there for this: min_max gives nothing better.
TEST(CalibrationOfAnyData, MseIsNoWorseThanMinMax) {
  for_each_case([](const Case& c) {
    if (c.options.calibrator != Calibrator::kMse || is_fitted(c.spec.format)) return;
    SCOPED_TRACE(c.name);
    CalibrationOptions widest = c.options;
    widest.calibrator = Calibrator::kMinMax;
    const auto error_with = [&](const CalibrationOptions& options) {
      return squared_error_of(calibrate(c.spec, {&c.distribution, 1}, options, "test").format,
                              c.distribution);
    };
    EXPECT_LE(error_with(c.options), error_with(widest));
  });
}

/// With a zero point, codes of 8 bits hold values of one sign as finely as the range from 0 allows.
TEST(CalibrationOfAnyData, ValuesOfOneSignKeepTheirPrecision) {
  for (const float sign : {1.0F, -1.0F}) {
    std::vector<float> values = narrow_values(4, 0.9F);
    for (float& value : values) value *= sign;
    const Distribution distribution = Distribution::of(values);
    const double largest = std::max(std::fabs(static_cast<double>(distribution.range->low)),
                                    std::fabs(static_cast<double>(distribution.range->high)));
    const double step = largest / 255;
    for (const Calibrator calibrator : {Calibrator::kMse, Calibrator::kEntropy}) {
      const QuantSpec spec =
          calibrate({.format = Affine{}}, {&distribution, 1}, {.calibrator = calibrator}, "test");
      EXPECT_LE(squared_error_of(spec.format, distribution), 500 * step * step / 4) << sign;
    }
  }
}

constexpr int64_t kAllBins = 2048;
constexpr int kTriedFactors = 128;
constexpr double kSpreadShare = 1e-4;

/// All bins, those without values too.
struct AllBins {
  std::vector<double> counts;
  Distribution centres;  // of the same bins; counts of 1

  AllBins(const Distribution& distribution, const Interval& range);
};

AllBins::AllBins(const Distribution& distribution, const Interval& range)
    : counts(static_cast<size_t>(kAllBins)) {
  const auto low = static_cast<double>(range.low);
  const double width = (static_cast<double>(range.high) - low) / kAllBins;
  for (const auto& [value, count] : distribution.bins) {
    if (value == 0 || !std::isfinite(value)) continue;
    const auto bin = static_cast<int64_t>((static_cast<double>(value) - low) / width);
    counts[static_cast<size_t>(std::clamp<int64_t>(bin, 0, kAllBins - 1))] += static_cast<double>(count);
  }
  for (int64_t i = 0; i < kAllBins; ++i) {
    centres.bins.push_back({static_cast<float>(low + (static_cast<double>(i) + 0.5) * width), 1});
  }
}

/// First and last bin whose centre lies in the range.
struct KeptOfAll {
  size_t first;
  size_t last;
};

KeptOfAll kept_of_all(const std::vector<Distribution::Bin>& centres, const Interval& range) {
  const auto inside = [&](const Distribution::Bin& bin) {
    return bin.value >= range.low && bin.value <= range.high;
  };
  const auto first = std::ranges::find_if(centres, inside);
  if (first == centres.end()) return {1, 0};
  const auto last = std::find_if_not(first, centres.end(), inside) - 1;
  return {static_cast<size_t>(first - centres.begin()), static_cast<size_t>(last - centres.begin())};
}

/// For each bin in [kept.first, kept.last]: the share of its level, spread over the level's bins that are not
/// empty. `levels` ascends.
std::vector<double> spread_over_all(const std::vector<double>& counts, std::span<const float> levels,
                                    const KeptOfAll& kept) {
  std::vector<double> spread(counts.size());
  for (size_t begin = kept.first; begin <= kept.last;) {
    size_t end = begin;
    double mass = 0;
    double not_empty = 0;
    for (; end <= kept.last && levels[end] == levels[begin]; ++end) {
      mass += counts[end];
      not_empty += counts[end] > 0 ? 1 : 0;
    }
    for (; begin < end; ++begin) spread[begin] = counts[begin] > 0 ? mass / not_empty : 0;
  }
  return spread;
}

/// D(P || Q), infinite when no value lies within the range.
double divergence_over_all(const std::vector<double>& counts, std::span<const float> levels,
                           const KeptOfAll& kept) {
  std::vector<double> clipped(counts.size());
  double total = 0;
  double within = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    clipped[std::clamp(i, kept.first, kept.last)] += counts[i];
    total += counts[i];
    within += i >= kept.first && i <= kept.last ? counts[i] : 0;
  }
  if (within == 0) return std::numeric_limits<double>::infinity();
  const std::vector<double> spread = spread_over_all(counts, levels, kept);
  const auto kept_count = static_cast<double>(kept.last - kept.first + 1);
  double sum = 0;
  for (size_t i = kept.first; i <= kept.last; ++i) {
    if (clipped[i] == 0) continue;
    const double p = clipped[i] / total;
    const double q = (1 - kSpreadShare) * spread[i] / within + kSpreadShare / kept_count;
    sum += p * std::log(p / q);
  }
  return sum;
}

Interval range_by_all_bins(const Format& format, const Distribution& distribution, const Interval& full,
                           ScaleForm form) {
  const Interval widened{std::min(full.low, 0.0F), std::max(full.high, 0.0F)};
  if (!(widened.low < widened.high)) return full;
  const AllBins histogram(distribution, widened);
  FormatError quantizer(histogram.centres);
  const double largest =
      widest_range_factor(format) * static_cast<double>(std::max(-widened.low, widened.high));
  LeastError<Interval> least{full};
  for (int i = kTriedFactors; i >= 1; --i) {
    const Interval range = held_to(widened, largest * i / kTriedFactors);
    if (!(range.low < range.high)) break;  // vanished, and so will the narrower ones
    const KeptOfAll kept = kept_of_all(histogram.centres.bins, range);
    if (kept.first > kept.last) continue;
    const Format candidate = qparams_from_range(format, {&range, 1}, form, "");
    least.consider(range, divergence_over_all(histogram.counts, quantizer.quantized(candidate), kept));
  }
  return least.best;
}

/// Few values in most bins, as of a group of weights, or many in all.
TEST(LeastDivergence, IsThatOfAllBins) {
  std::mt19937 random(3);
  for (const int count : {1, 2, 3, 5, 16, 300, 40000}) {
    for (const double shift : {0.0, 2.0, 100.0}) {
      std::normal_distribution<float> normal(static_cast<float>(shift));
      std::vector<float> values(static_cast<size_t>(count));
      for (float& value : values) value = normal(random);
      const Distribution distribution = Distribution::of(values);
      for (const char* text : {"affine", "affine:symmetric=true,width=3", "affine:width=2,signed=false",
                               "fixed:width=5", "minifloat_ieee:width=6,exponent_width=3", "ternary"}) {
        for (const ScaleForm form : {ScaleForm::kFloat, ScaleForm::kPowerOfTwo}) {
          const Format format = parse_format(text);
          const Interval full = *distribution.range;
          const Interval found = least_divergence_range(format, distribution, full, form, "");
          const Interval expected = range_by_all_bins(format, distribution, full, form);
          EXPECT_EQ(found.low, expected.low) << text << " of " << count << " around " << shift;
          EXPECT_EQ(found.high, expected.high) << text << " of " << count << " around " << shift;
        }
      }
    }
  }
}

}  // namespace
}  // namespace detent

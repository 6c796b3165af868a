#include "detent/statistics/range_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "detent/formats/groups/calibrating.h"
#include "detent/formats/quant_spec.h"

namespace detent {
namespace {

/// Steps of the ranges tried, in parts of an octave: coarse ones, then finer ones around the best.
constexpr int kCoarse = 8;
constexpr int kFine = 32;
/// Octaves of both ends together, and of one end alone.
constexpr int kOctaves = 20;
constexpr int kOctavesOfAnEnd = 6;
/// Fine steps to each side: a little beyond the coarse neighbours.
constexpr int kReach = kFine / kCoarse + 1;

class Search {
 public:
  Search(const Format& format, const Distribution& distribution, const Interval& full, ScaleForm form,
         const std::string& where)
      : format_(format),
        full_(format_detail::union_with_zero({&full, 1})),
        form_(form),
        where_(where),
        error_(distribution),
        least_{full_} {}

  Interval run() {
    const double largest =
        widest_range_factor(format_) *
        std::max(std::fabs(static_cast<double>(full_.low)), std::fabs(static_cast<double>(full_.high)));
    double limit = largest;
    const auto consider_limit = [&](double magnitude) {
      if (consider(held_to(full_, magnitude))) limit = magnitude;
    };
    for (int i = 0; i <= kCoarse * kOctaves; ++i) consider_limit(largest * octaves(-i, kCoarse));
    const double coarse = limit;
    for (int i = -kReach; i <= kReach; ++i) consider_limit(std::min(coarse * octaves(i, kFine), largest));
    // The ends of a range that is not symmetric trade saturation for step size differently.
    for (int round = 0; round < 2; ++round) {
      move_end(&Interval::low);
      move_end(&Interval::high);
    }
    return least_.best;
  }

 private:
  static double octaves(int steps, int steps_per_octave) {
    return std::exp2(static_cast<double>(steps) / steps_per_octave);
  }

  void move_end(float Interval::*end) {
    const auto consider_scaled = [&](const Interval& range, double factor) {
      Interval moved = range;
      moved.*end = static_cast<float>(static_cast<double>(range.*end) * factor);
      if (moved.low >= full_.low && moved.high <= full_.high) consider(moved);
    };
    const Interval start = least_.best;
    for (int i = 0; i <= kCoarse * kOctavesOfAnEnd; ++i) consider_scaled(start, octaves(-i, kCoarse));
    consider_scaled(start, 0);
    const Interval coarse = least_.best;
    for (int i = -kReach; i <= kReach; ++i) consider_scaled(coarse, octaves(i, kFine));
  }

  /// Whether it is the best so far.
  bool consider(const Interval& range) {
    if (!(range.low < 0 || range.high > 0)) return false;  // vanished
    Format candidate = qparams_from_range(format_, {&range, 1}, form_, where_);
    if (last_ && *last_ == candidate) return false;  // neighbours often give the same power of two
    const double error = error_.squared(candidate);
    last_ = std::move(candidate);
    return least_.consider(range, error);
  }

  const Format& format_;
  const Interval full_;
  const ScaleForm form_;
  const std::string& where_;
  FormatError error_;
  std::optional<Format> last_;
  LeastError<Interval> least_;
};

}  // namespace

FormatError::FormatError(const Distribution& distribution)
    : distribution_(distribution),
      values_(DType::kFloat32, {static_cast<int64_t>(distribution.bins.size())}),
      quantized_(DType::kFloat32, values_.shape()) {
  const std::span<float> values = values_.values<float>();
  for (size_t i = 0; i < values.size(); ++i) values[i] = distribution.bins[i].value;
}

std::span<const float> FormatError::quantized(const Format& format) {
  // A scale derived from the bins would not know their counts.
  const QuantSpec spec{.format = without_data_scale(format)};
  fake_quantize(spec, values_, quantized_);
  return std::as_const(quantized_).values<float>();
}

double FormatError::squared(const Format& format) {
  const std::span<const float> held = quantized(format);
  const std::vector<Distribution::Bin>& bins = distribution_.bins;
  double scale = 1;
  if (is_scaled_by_data(format)) {
    double sum = 0;
    double count = 0;
    for (size_t i = 0; i < held.size(); ++i) {
      if (held[i] == 0) continue;
      sum += static_cast<double>(bins[i].count) * std::fabs(static_cast<double>(bins[i].value));
      count += static_cast<double>(bins[i].count);
    }
    scale = count == 0 ? 0 : static_cast<double>(static_cast<float>(sum / count));
  }
  double error = 0;
  for (size_t i = 0; i < held.size(); ++i) {
    const double distance = static_cast<double>(bins[i].value) - scale * static_cast<double>(held[i]);
    error += static_cast<double>(bins[i].count) * distance * distance;
  }
  return error;
}

Interval held_to(const Interval& full, double magnitude) {
  constexpr auto kMax = static_cast<double>(std::numeric_limits<float>::max());
  const auto limit = static_cast<float>(std::min(magnitude, kMax));
  const float largest = std::max(std::fabs(full.low), std::fabs(full.high));
  if (limit > largest) return {full.low < 0 ? -limit : 0, limit};
  return {std::max(full.low, -limit), std::min(full.high, limit)};
}

Interval least_error_range(const Format& format, const Distribution& distribution, const Interval& full,
                           ScaleForm form, const std::string& where) {
  return Search(format, distribution, full, form, where).run();
}

}  // namespace detent

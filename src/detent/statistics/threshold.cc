#include "detent/statistics/range_search.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <vector>

#include "detent/core/error.h"

namespace detent {
namespace {

/// The finite values, where not all are.
std::optional<std::vector<float>> finite_part(std::span<const float> values) {
  const auto is_finite = [](float value) { return std::isfinite(value); };
  if (std::ranges::all_of(values, is_finite)) return std::nullopt;
  std::vector<float> finite;
  std::ranges::copy_if(values, std::back_inserter(finite), is_finite);
  return finite;
}

/// The k-th smallest, counted from 1, with k held to what there is.
double kth_smallest(std::vector<float> values, double k) {
  const auto count = static_cast<double>(values.size());
  const auto place = static_cast<std::ptrdiff_t>(std::clamp(k, 1.0, count)) - 1;
  std::nth_element(values.begin(), values.begin() + place, values.end());
  return static_cast<double>(values[static_cast<size_t>(place)]);
}

std::vector<float> magnitudes(std::span<const float> values) {
  std::vector<float> result(values.size());
  std::ranges::transform(values, result.begin(), [](float value) { return std::fabs(value); });
  return result;
}

double upper_place(double percentile, size_t count) {
  return std::floor(percentile / 100 * static_cast<double>(count) + 0.5);
}

double mean_magnitude(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += std::fabs(static_cast<double>(value));
  return sum / static_cast<double>(values.size());
}

double mean_sigma(double sigma, std::span<const float> values) {
  const double mean = mean_magnitude(values);
  double squares = 0;
  for (const float value : values) {
    const double difference = std::fabs(static_cast<double>(value)) - mean;
    squares += difference * difference;
  }
  const double degrees = std::max(static_cast<double>(values.size()) - 1, 1.0);
  return mean + sigma * std::sqrt(squares / degrees + 1e-8);
}

double largest_magnitude(std::span<const float> values) {
  double largest = 0;
  for (const float value : values) largest = std::max(largest, std::fabs(static_cast<double>(value)));
  return largest;
}

double squared_error(double threshold, std::span<const float> values, const CodeRange& codes) {
  const double scale = threshold / codes.high;
  double error = 0;
  for (const float value : values) {
    const double x = static_cast<double>(value);
    const double difference = std::clamp(std::nearbyint(x / scale), codes.low, codes.high) * scale - x;
    error += difference * difference;
  }
  return error;
}

double least_squared_error(std::span<const float> values, const CodeRange& codes) {
  constexpr int kSteps = 20;
  const double largest = largest_magnitude(values);
  if (largest == 0) return 0;
  LeastError<double> least{largest};
  for (int i = kSteps; i >= 2; --i) {
    const double candidate = largest * i / kSteps;
    least.consider(candidate, squared_error(candidate, values, codes));
  }
  return least.best;
}

}  // namespace

double low_percentile(double percentile, std::span<const float> values) {
  if (const auto finite = finite_part(values)) return low_percentile(percentile, *finite);
  if (values.empty()) return 0;
  const double place = std::ceil(percentile / 100 * static_cast<double>(values.size()));
  return std::min(kth_smallest({values.begin(), values.end()}, place), 0.0);
}

double find_threshold(Threshold kind, double argument, std::span<const float> values,
                      const CodeRange& codes) {
  if (const auto finite = finite_part(values)) return find_threshold(kind, argument, *finite, codes);
  if (values.empty()) return 0;
  switch (kind) {
    case Threshold::kMax:
    case Threshold::kMeanOfMaxima:
      return largest_magnitude(values);
    case Threshold::kMean:
      return mean_magnitude(values);
    case Threshold::kMeanSigma:
      return mean_sigma(argument, values);
    case Threshold::kPercentile:
      return kth_smallest(magnitudes(values), upper_place(argument, values.size()));
    case Threshold::kRange: {
      const auto [low, high] = std::ranges::minmax(values);
      return std::max(static_cast<double>(high), 0.0) - std::min(static_cast<double>(low), 0.0);
    }
    case Threshold::kPercentileRange: {
      const double high =
          kth_smallest({values.begin(), values.end()}, upper_place(100 - argument, values.size()));
      return std::max(high, 0.0) - low_percentile(argument, values);
    }
    case Threshold::kLearnedStep:
      return 2 * mean_magnitude(values) * std::sqrt(codes.high);
    case Threshold::kSquaredError:
      return least_squared_error(values, codes);
  }
  DETENT_CHECK(false, "threshold {}", static_cast<int>(kind));
  return 0;
}

}  // namespace detent

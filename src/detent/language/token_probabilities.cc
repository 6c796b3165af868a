#include "detent/language/sampling.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/language/token_probabilities.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/highway.h>

#ifndef DETENT_LANGUAGE_TOKEN_PROBABILITIES_
#define DETENT_LANGUAGE_TOKEN_PROBABILITIES_
namespace detent::probability_detail {

constexpr size_t kLanes = 16;
/// exp of less is a subnormal.
constexpr double kLeastExponent = -708;
/// Added to a number below 2^51 and taken off again, it leaves the nearest integer.
constexpr double kRounding = 0x1.8p52;
constexpr double kLog2OfE = 0x1.71547652b82fep+0;
// log(2) in two parts: products of the first with integers of 11 bits are exact.
constexpr double kLog2High = 0x1.62e42fefa3800p-1;
constexpr double kLog2Low = 0x1.ef35793c76730p-45;
/// 1 / n!, from 13 down to 2: of exp on [-0.35, 0.35], to 2^-56.
constexpr double kInverseFactorials[] = {1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800,
                                         1.0 / 362880,     1.0 / 40320,     1.0 / 5040,     1.0 / 720,
                                         1.0 / 120,        1.0 / 24,        1.0 / 6,        0.5};

/// exp(x) of x from -708 to 709.
inline double bounded_exp(double x) {
  const double shifted = x * kLog2OfE + kRounding;
  const double power = shifted - kRounding;
  const double rest = (x - power * kLog2High) - power * kLog2Low;
  double sum = kInverseFactorials[0];
  for (size_t i = 1; i < std::size(kInverseFactorials); ++i) sum = sum * rest + kInverseFactorials[i];
  const double mantissa = 1 + (rest + rest * rest * sum);
  constexpr uint64_t kBias = 1023;
  const uint64_t exponent = (std::bit_cast<uint64_t>(shifted) + kBias) << 52;
  return mantissa * std::bit_cast<double>(exponent);
}

/// exp of a difference to the largest logit, at most 0.
inline double share_of(double difference) {
  return bounded_exp(difference < kLeastExponent ? kLeastExponent : difference);
}

/// log(x) of a normal x: 2 atanh(s) with s = (m - 1) / (m + 1) of its mantissa m, by a series.
inline double normal_log(double x) {
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);
  if (mantissa < 0x1.6a09e667f3bcdp-1) {
    mantissa *= 2;
    --exponent;
  }
  const double s = (mantissa - 1) / (mantissa + 1);
  const double square = s * s;
  constexpr int kLastTerm = 23;
  double sum = 0;
  for (int n = kLastTerm; n >= 3; n -= 2) sum = (sum + 1.0 / n) * square;
  return exponent * kLog2High + (exponent * kLog2Low + (2 * s * sum + 2 * s));
}

/// By halves.
inline double sum_of_lanes(double (&lanes)[kLanes]) {
  for (size_t half = kLanes / 2; half > 0; half /= 2) {
    for (size_t j = 0; j < half; ++j) lanes[j] += lanes[j + half];
  }
  return lanes[0];
}

}  // namespace detent::probability_detail
#endif  // DETENT_LANGUAGE_TOKEN_PROBABILITIES_

// Plain C++: the compiler vectorises the loops over lanes with the instructions of each target.
HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {
using namespace probability_detail;

HWY_INLINE float LargestLogit(const float* logits, size_t count) {
  float lanes[kLanes];
  std::fill(lanes, lanes + kLanes, -HUGE_VALF);
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j) lanes[j] = logits[i + j] > lanes[j] ? logits[i + j] : lanes[j];
  }
  for (size_t j = 0; i + j < count; ++j) lanes[j] = logits[i + j] > lanes[j] ? logits[i + j] : lanes[j];
  return *std::max_element(lanes, lanes + kLanes);
}

double LogSumExp(const float* logits, size_t count) {
  const double largest = LargestLogit(logits, count);
  double lanes[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j) lanes[j] += share_of(static_cast<double>(logits[i + j]) - largest);
  }
  for (size_t j = 0; i + j < count; ++j) lanes[j] += share_of(static_cast<double>(logits[i + j]) - largest);
  const double sum = sum_of_lanes(lanes);
  if (!std::isfinite(sum) || !std::isfinite(largest)) return std::numeric_limits<double>::quiet_NaN();
  return largest + normal_log(sum);
}

HWY_INLINE double DivergenceTerm(float reference, double reference_sum, float logit, double sum) {
  const double log_p = static_cast<double>(reference) - reference_sum;
  const double log_q = static_cast<double>(logit) - sum;
  return share_of(log_p) * (log_p - log_q);
}

double Divergence(const float* reference, double reference_sum, const float* logits, double sum,
                  size_t count) {
  double lanes[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j) {
      lanes[j] += DivergenceTerm(reference[i + j], reference_sum, logits[i + j], sum);
    }
  }
  for (size_t j = 0; i + j < count; ++j) {
    lanes[j] += DivergenceTerm(reference[i + j], reference_sum, logits[i + j], sum);
  }
  return sum_of_lanes(lanes);
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(LogSumExp);
HWY_EXPORT(Divergence);

double log_sum_exp(std::span<const float> logits) {
  return HWY_DYNAMIC_DISPATCH(LogSumExp)(logits.data(), logits.size());
}

double divergence(std::span<const float> reference, double reference_sum, std::span<const float> logits,
                  double sum) {
  return HWY_DYNAMIC_DISPATCH(Divergence)(reference.data(), reference_sum, logits.data(), sum,
                                          reference.size());
}

int64_t most_likely(std::span<const float> logits) {
  return std::max_element(logits.begin(), logits.end()) - logits.begin();
}

double exact_exp(double x) {
  constexpr double kMost = 709;
  if (x > kMost) return HUGE_VAL;
  return std::isnan(x) ? x : probability_detail::share_of(x);
}

}  // namespace detent
#endif

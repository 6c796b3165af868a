#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <cstdint>
#include <iterator>

#include "detent/kernels/coefficients.h"
#include "detent/kernels/functions.h"
#include "detent/kernels/functions_reference.h"

// The arithmetic of elementary-inl.h and functions.cc for one number. The circular functions are those of
// trigonometric_reference.cc.

namespace detent {
namespace {

namespace c = coefficients;

struct ExpParts {
  double rest;
  double power;
};

ExpParts split_exp(double x) {
  x = std::min(std::max(x, -c::kExpMost), c::kExpMost);
  const double rounded = std::fma(x, c::kLog2E, c::kRounder);
  const double r = std::fma(rounded - c::kRounder, -c::kLn2, x);
  const uint64_t biased = std::bit_cast<uint64_t>(rounded) + 1023;
  return {std::fma(r * r, polynomial_reference(r, c::kExp), r), std::bit_cast<double>(biased << 52)};
}

double exponential(double x) {
  const auto [rest, power] = split_exp(x);
  return std::fma(rest, power, power);
}

double exponential_less_one(double x) {
  const auto [rest, power] = split_exp(x);
  return std::fma(rest, power, power - 1);
}

struct LogParts {
  double exponent;
  double m;
};

LogParts split_log(double x) {
  constexpr uint64_t kRoot = std::bit_cast<uint64_t>(c::kHalfRoot);
  constexpr uint64_t kOne = std::bit_cast<uint64_t>(1.0);
  const uint64_t bits = std::bit_cast<uint64_t>(x) + kOne - kRoot;
  const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
  return {static_cast<double>(bits >> 52) - 1023, std::bit_cast<double>(fraction + kRoot)};
}

double log_of(double exponent, double f) {
  const double s = f / (f + 2);
  const double square = s * s;
  const double twice = s + s;
  return std::fma(exponent, c::kLn2, std::fma(twice * square, polynomial_reference(square, c::kLog), twice));
}

double logarithm(double x) {
  if (x < 0) return NAN;
  if (x == 0) return -HUGE_VAL;
  if (x == HUGE_VAL) return x;
  const auto [exponent, m] = split_log(x);
  return log_of(exponent, m - 1);
}

double log_of_one_and(double x) {
  const auto [exponent, m] = split_log(x + 1);
  return log_of(exponent, exponent == 0 ? x : m - 1);
}

double sigmoid(double x) { return 1 / (1 + exponential(-x)); }

double hyperbolic_tangent(double x) {
  const double less_one = exponential_less_one(x + x);
  return std::copysign(less_one / (less_one + 2), x);
}

double erfc_of(double t) {
  t = std::min(t, c::kErfcMost);
  return exponential(-(t * t)) * polynomial_reference((t - c::kErfcMiddle) / (t + c::kErfcMiddle), c::kErfc);
}

double error_function(double x) {
  const double t = std::fabs(x);
  if (t < 0.5) return x * polynomial_reference(x * x, c::kErf);
  return std::copysign(1 - erfc_of(t), x);
}

/// Below it x times a share that falls like exp(x) is 0 in float32, at minus infinity too.
double cut_below(double x) { return std::max(x, -1000.0); }

double gelu_tanh(double x) {
  const double cubic = std::fma(0.044715 * (x * x), x, x);
  return x * sigmoid(1.5957691216057308 * cubic);
}

double mish(double x) {
  const double power = exponential(std::min(x, 300.0));
  const double product = power * (power + 2);
  return x * (product / (product + 2));
}

/// max(x, 0) - t P(N(0, 1) > t), where t = |x|.
float gelu(float x) {
  const float t = std::fabs(x);
  const float positive = x < 0 ? 0 : x;
  if (t > c::kFloatMostTail) return positive;
  const float place = t / (t + c::kFloatTailMiddle);
  float sum = c::kFloatTail[0];
  for (size_t i = 1; i < std::size(c::kFloatTail); ++i) sum = std::fma(sum, place, c::kFloatTail[i]);
  const float square = x * x;
  const float left = std::fma(x, x, -square);
  const auto [r, power] = reduce_exp_reference(-0.5F * square);
  const float rest = exp_rest_reference(std::fma(left, -0.5F, r));
  const float tail = place * sum;
  return std::fma(-std::fma(tail, rest, tail), power, positive);
}

float silu(float x) {
  if (x < c::kFloatLeastExp) {
    const double cut = cut_below(static_cast<double>(x));
    return static_cast<float>(cut * sigmoid(cut));
  }
  const auto [r, power] = reduce_exp_reference(std::max(-std::fabs(x), c::kFloatLeastExp));
  const float exponential = std::fma(exp_rest_reference(r), power, power);
  return (x < 0 ? x * exponential : x) / (1 + exponential);
}

double hyperbolic_sine(double x) {
  const double less_one = exponential_less_one(std::fabs(x));
  return std::copysign((less_one + less_one / (less_one + 1)) * 0.5, x);
}

double hyperbolic_cosine(double x) {
  const double power = exponential(std::fabs(x));
  return (power + 1 / power) * 0.5;
}

double area_sine(double x) {
  const double t = std::fabs(x);
  if (t == HUGE_VAL) return x;
  const double square = t * t;
  return std::copysign(log_of_one_and(t + square / (1 + std::sqrt(1 + square))), x);
}

double area_cosine(double x) {
  if (x < 1) return NAN;
  if (x == HUGE_VAL) return x;
  const double t = x - 1;
  return log_of_one_and(t + std::sqrt(t * (x + 1)));
}

double area_tangent(double x) {
  const double t = std::fabs(x);
  if (t > 1) return NAN;
  if (t == 1) return std::copysign(HUGE_VAL, x);
  return std::copysign(log_of_one_and((t + t) / (1 - t)) * 0.5, x);
}

float sign(float x) { return x > 0 ? 1.0F : x < 0 ? -1.0F : x; }

float hardswish(float x) { return x < 3 ? x * (x + 3 < 0 ? 0 : x + 3) / 6 : x; }

/// Kinds that are operations in float32.
float exact_function(ElementFunction::Kind kind, float x) {
  using Kind = ElementFunction::Kind;
  switch (kind) {
    case Kind::kAbs:
      return std::fabs(x);
    case Kind::kNegative:
      return -x;
    case Kind::kSign:
      return sign(x);
    case Kind::kSqrt:
      return std::sqrt(x);
    case Kind::kReciprocal:
      return 1 / x;
    case Kind::kFloor:
      return std::floor(x);
    case Kind::kCeil:
      return std::ceil(x);
    case Kind::kRound:
      return std::nearbyint(x);
    case Kind::kSoftsign:
      return x / (std::fabs(x) + 1);
    case Kind::kHardswish:
      return hardswish(x);
    default:
      return NAN;
  }
}

/// The others.
double function_of(const ElementFunction& f, double x) {
  using Kind = ElementFunction::Kind;
  switch (f.kind) {
    case Kind::kExp:
      return exponential(x);
    case Kind::kLog:
      return logarithm(x);
    case Kind::kErf:
      return error_function(x);
    case Kind::kTanh:
      return hyperbolic_tangent(x);
    case Kind::kSigmoid:
      return sigmoid(x);
    case Kind::kSilu:
      return static_cast<double>(silu(static_cast<float>(x)));
    case Kind::kMish:
      return x == -std::numeric_limits<double>::infinity() ? std::numeric_limits<double>::quiet_NaN()
                                                           : mish(cut_below(x));
    case Kind::kGelu:
      return static_cast<double>(gelu(static_cast<float>(x)));
    case Kind::kGeluTanh:
      return gelu_tanh(cut_below(x));
    case Kind::kSoftplus:
      return f.a * x > f.b ? x : log_of_one_and(exponential(f.a * x)) / f.a;
    case Kind::kElu:
      return x > 0 ? f.a * x : f.b * exponential_less_one(f.c * x);
    case Kind::kSin:
      return sine_reference(x);
    case Kind::kCos:
      return cosine_reference(x);
    case Kind::kTan:
      return tangent_reference(x);
    case Kind::kAsin:
      return arc_sine_reference(x);
    case Kind::kAcos:
      return arc_cosine_reference(x);
    case Kind::kAtan:
      return arc_tangent_reference(x);
    case Kind::kSinh:
      return hyperbolic_sine(x);
    case Kind::kCosh:
      return hyperbolic_cosine(x);
    case Kind::kAsinh:
      return area_sine(x);
    case Kind::kAcosh:
      return area_cosine(x);
    case Kind::kAtanh:
      return area_tangent(x);
    default:
      return NAN;
  }
}

}  // namespace

float function_reference(const ElementFunction& function, float x) {
  if (std::isnan(x)) return x;
  if (function.is_exact()) return exact_function(function.kind, x);
  return static_cast<float>(function_of(function, static_cast<double>(x)));
}

float power_reference(float base, float exponent) {
  if (exponent == 0 || base == 1) return 1;
  if (std::isnan(base) || std::isnan(exponent)) return NAN;
  const double size = std::fabs(static_cast<double>(base));
  if (size == 1 && std::isinf(exponent)) return 1;
  const bool is_whole = std::floor(exponent) == exponent;
  if (base < 0 && size < HUGE_VAL && !is_whole) return NAN;
  const double power =
      exponent == 2 ? size * size : exponential(static_cast<double>(exponent) * logarithm(size));
  const bool is_odd = is_whole && std::floor(exponent / 2) != exponent / 2;
  return static_cast<float>(std::signbit(base) && is_odd ? -power : power);
}

}  // namespace detent

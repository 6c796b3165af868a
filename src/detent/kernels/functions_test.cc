#include "detent/kernels/functions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "detent/formats/every_target_test.h"

namespace detent {
namespace {

using Kind = ElementFunction::Kind;

class Functions : public EveryTargetTest {};
DETENT_ON_EVERY_TARGET(Functions);

long double softplus(long double x) { return x > 20 ? x : std::log1p(std::exp(x)); }

struct Case {
  const char* name;
  ElementFunction function;
  long double (*exact)(long double);
  long double most_units = 0.51L;  // in the last place
};
const std::vector<Case> kCases = {
    {"exp", {Kind::kExp}, [](long double x) { return std::exp(x); }},
    {"log", {Kind::kLog}, [](long double x) { return std::log(x); }},
    {"erf", {Kind::kErf}, [](long double x) { return std::erf(x); }},
    {"tanh", {Kind::kTanh}, [](long double x) { return std::tanh(x); }},
    {"sigmoid", {Kind::kSigmoid}, [](long double x) { return 1 / (1 + std::exp(-x)); }},
    {"silu", {Kind::kSilu}, [](long double x) { return x / (1 + std::exp(-x)); }, 3},
    {"mish", {Kind::kMish}, [](long double x) { return x * std::tanh(std::log1p(std::exp(x))); }},
    {"gelu",
     {Kind::kGelu},
     [](long double x) { return x / 2 * std::erfc(-x / std::numbers::sqrt2_v<long double>); },
     3},
    {"gelu, tanh",
     {Kind::kGeluTanh},
     [](long double x) {
       const long double root = std::sqrt(2 * std::numbers::inv_pi_v<long double>);
       return x / (1 + std::exp(-2 * root * (x + 0.044715L * x * x * x)));
     }},
    {"softplus", {Kind::kSoftplus, 1, 20}, softplus},
    {"softplus of a slope", {Kind::kSoftplus, 3, 20}, [](long double x) { return softplus(3 * x) / 3; }},
    {"elu", {Kind::kElu}, [](long double x) { return x > 0 ? x : std::expm1(x); }},
    {"celu", {Kind::kElu, 1, 0.5, 2}, [](long double x) { return x > 0 ? x : std::expm1(2 * x) / 2; }},
    {"sin", {Kind::kSin}, [](long double x) { return std::sin(x); }},
    {"cos", {Kind::kCos}, [](long double x) { return std::cos(x); }},
    {"tan", {Kind::kTan}, [](long double x) { return std::tan(x); }},
    {"asin", {Kind::kAsin}, [](long double x) { return std::asin(x); }},
    {"acos", {Kind::kAcos}, [](long double x) { return std::acos(x); }},
    {"atan", {Kind::kAtan}, [](long double x) { return std::atan(x); }},
    {"sinh", {Kind::kSinh}, [](long double x) { return std::sinh(x); }},
    {"cosh", {Kind::kCosh}, [](long double x) { return std::cosh(x); }},
    {"asinh", {Kind::kAsinh}, [](long double x) { return std::asinh(x); }},
    {"acosh", {Kind::kAcosh}, [](long double x) { return std::acosh(x); }},
    {"atanh", {Kind::kAtanh}, [](long double x) { return std::atanh(x); }},
};

/// Every so many of all floats.
std::vector<float> floats(uint64_t step) {
  std::vector<float> values;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += step) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (!std::isnan(value)) values.push_back(value);
  }
  return values;
}

/// The points where a function is zero, endless, not defined or computed otherwise, and `count` floats on
/// each side of each.
std::vector<float> critical_floats(int count) {
  constexpr float kMost = std::numeric_limits<float>::max();
  std::vector<float> points = {0,           1e-40F,     0x1p-126F,  0x1p-12F, 0.41421357F, 0.5F,    1,
                               2.41421357F, 88.722839F, 89.415986F, 0x1p31F,  0x1p32F,     0x1p33F, kMost};
  for (int i = 1; i < 100; ++i) points.push_back(static_cast<float>(i * std::numbers::pi / 4));
  // The nearest to multiples of pi / 2, below 2^32 and among all floats.
  points.insert(points.end(), {0x1.f9cbe2p7F, 0x1.f37c8ap95F});
  for (int exponent = 6; exponent < 128; ++exponent)
    points.push_back(static_cast<float>(std::ldexp(std::numbers::pi, exponent - 1)));
  std::vector<float> values;
  for (const float point : points) {
    const auto bits = static_cast<int64_t>(std::bit_cast<uint32_t>(point));
    for (int64_t i = std::max<int64_t>(bits - count, 0); i <= bits + count; ++i) {
      const auto value = std::bit_cast<float>(static_cast<uint32_t>(i));
      if (std::isfinite(value)) values.insert(values.end(), {value, -value});
    }
  }
  return values;
}

std::vector<float> applied(const ElementFunction& function, const std::vector<float>& values) {
  std::vector<float> results(values.size());
  apply_function(function, values, results);
  return results;
}

bool same_bits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

/// In units of the last place of float32.
long double error_in(float result, long double exact) {
  int exponent = 0;
  std::frexp(exact, &exponent);
  constexpr int kLeastExponent = -149;
  const int last = exact == 0 ? kLeastExponent : std::max(exponent - 24, kLeastExponent);
  return std::fabs(static_cast<long double>(result) - exact) / std::ldexp(1.0L, last);
}

void expect_exact(const Case& c, const std::vector<float>& values) {
  const std::vector<float> results = applied(c.function, values);
  long double worst = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const long double exact = c.exact(values[i]);
    const auto rounded = static_cast<float>(exact);
    if (!std::isfinite(rounded)) {
      EXPECT_TRUE(same_bits(results[i], rounded)) << c.name << " of " << values[i];
    } else if (c.most_units < 1 || std::fabs(rounded) >= 0x1p-126F) {
      worst = std::max(worst, error_in(results[i], exact));
    }
  }
  EXPECT_LE(worst, c.most_units) << c.name;
}

TEST(ElementFunctions, AreAsExactAsTheySay) {
  const std::vector<float> values = floats(30011);
  const std::vector<float> critical = critical_floats(200);
  for (const Case& c : kCases) {
    expect_exact(c, values);
    expect_exact(c, critical);
  }
}

void expect_the_reference(const Case& c, const std::vector<float>& values) {
  const std::vector<float> results = applied(c.function, values);
  for (size_t i = 0; i < values.size(); ++i)
    ASSERT_TRUE(same_bits(results[i], function_reference(c.function, values[i])))
        << c.name << " " << values[i];
}

TEST_P(Functions, AreTheReference) {
  std::vector<std::vector<float>> lists = {floats(300007), critical_floats(10)};
  for (const size_t count : {size_t{1}, size_t{7}, size_t{40}})
    lists.push_back(floats((uint64_t{1} << 32) / count));
  for (const Case& c : kCases) {
    for (const std::vector<float>& values : lists) expect_the_reference(c, values);
  }
}

TEST_P(Functions, OfAFewOperationsAreTheReference) {
  std::vector<float> values = floats(300007);
  for (const float point :
       {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 2.5F, 3.0F, 0x1p22F, 0x1p23F, 0x1p24F, 1e-40F, HUGE_VALF}) {
    for (const float x : {point, std::nextafter(point, 0.0F), std::nextafter(point, HUGE_VALF)})
      values.insert(values.end(), {x, -x});
  }
  values.push_back(NAN);
  for (int kind = static_cast<int>(Kind::kAbs); kind <= static_cast<int>(Kind::kHardswish); ++kind) {
    const ElementFunction function = {static_cast<Kind>(kind)};
    ASSERT_TRUE(function.is_exact());
    const std::vector<float> results = applied(function, values);
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_TRUE(same_bits(results[i], function_reference(function, values[i]))) << kind << " " << values[i];
  }
}

TEST(ElementFunctions, GeluOfTheFarTailIsSmall) {
  for (const float x : applied({Kind::kGelu}, {-12.5F, -13, -13.2F, -13.3F, -14, -100}))
    EXPECT_LT(std::fabs(x), 1e-33F);
}

TEST_P(Functions, TakeInfinitiesAndNaN) {
  const auto of = [](Kind kind, float x) { return applied({kind}, {x})[0]; };
  for (const Case& c : kCases) EXPECT_TRUE(std::isnan(applied(c.function, {NAN})[0])) << c.name;
  EXPECT_EQ(of(Kind::kExp, HUGE_VALF), HUGE_VALF);
  EXPECT_EQ(of(Kind::kExp, -HUGE_VALF), 0);
  EXPECT_EQ(of(Kind::kLog, 0), -HUGE_VALF);
  EXPECT_EQ(of(Kind::kLog, HUGE_VALF), HUGE_VALF);
  EXPECT_TRUE(std::isnan(of(Kind::kLog, -1)));
  for (const Kind kind : {Kind::kErf, Kind::kTanh}) {
    EXPECT_EQ(of(kind, HUGE_VALF), 1);
    EXPECT_EQ(of(kind, -HUGE_VALF), -1);
    EXPECT_TRUE(same_bits(of(kind, -0.0F), -0.0F));
  }
  for (const Kind kind : {Kind::kSilu, Kind::kMish, Kind::kGelu, Kind::kGeluTanh}) {
    EXPECT_EQ(of(kind, HUGE_VALF), HUGE_VALF);
  }
  for (const Kind kind : {Kind::kSilu, Kind::kGelu, Kind::kGeluTanh}) EXPECT_EQ(of(kind, -HUGE_VALF), 0);
  EXPECT_TRUE(std::isnan(of(Kind::kMish, -HUGE_VALF)));
}

TEST_P(Functions, OfAnglesTakeInfinitiesAndWhatHasNoResult) {
  const auto of = [](Kind kind, float x) { return applied({kind}, {x})[0]; };
  constexpr auto kQuarter = static_cast<float>(std::numbers::pi / 2);
  for (const Kind kind : {Kind::kSin, Kind::kCos, Kind::kTan, Kind::kAsin, Kind::kAcos, Kind::kAtanh}) {
    EXPECT_TRUE(std::isnan(of(kind, HUGE_VALF)));
    EXPECT_TRUE(std::isnan(of(kind, -HUGE_VALF)));
  }
  for (const Kind kind : {Kind::kAsin, Kind::kAcos, Kind::kAtanh}) {
    EXPECT_TRUE(std::isnan(of(kind, 2)));
    EXPECT_TRUE(std::isnan(of(kind, -0x1.000002p0F)));
  }
  for (const float x : {0.99999994F, 0.0F, -1.0F, -2.0F, -HUGE_VALF})
    EXPECT_TRUE(std::isnan(of(Kind::kAcosh, x))) << x;
  for (const Kind kind :
       {Kind::kSin, Kind::kTan, Kind::kAsin, Kind::kAtan, Kind::kSinh, Kind::kAsinh, Kind::kAtanh})
    EXPECT_TRUE(same_bits(of(kind, 0), 0) && same_bits(of(kind, -0.0F), -0.0F));
  for (const Kind kind : {Kind::kCos, Kind::kCosh}) EXPECT_EQ(of(kind, -0.0F), 1);
  for (const Kind kind : {Kind::kSinh, Kind::kAsinh}) {
    EXPECT_EQ(of(kind, HUGE_VALF), HUGE_VALF);
    EXPECT_EQ(of(kind, -HUGE_VALF), -HUGE_VALF);
  }
  EXPECT_EQ(of(Kind::kCosh, -HUGE_VALF), HUGE_VALF);
  EXPECT_EQ(of(Kind::kCosh, 100), HUGE_VALF);
  EXPECT_EQ(of(Kind::kSinh, -100), -HUGE_VALF);
  EXPECT_EQ(of(Kind::kAcosh, HUGE_VALF), HUGE_VALF);
  EXPECT_TRUE(same_bits(of(Kind::kAcosh, 1), 0));
  EXPECT_TRUE(same_bits(of(Kind::kAcos, 1), 0));
  EXPECT_EQ(of(Kind::kAcos, -1), static_cast<float>(std::numbers::pi));
  EXPECT_EQ(of(Kind::kAcos, -0.0F), kQuarter);
  EXPECT_EQ(of(Kind::kAsin, -1), -kQuarter);
  EXPECT_EQ(of(Kind::kAtan, HUGE_VALF), kQuarter);
  EXPECT_EQ(of(Kind::kAtan, -HUGE_VALF), -kQuarter);
  EXPECT_EQ(of(Kind::kAtanh, 1), HUGE_VALF);
  EXPECT_EQ(of(Kind::kAtanh, -1), -HUGE_VALF);
}

TEST_P(Functions, TakeHugeAnglesAmongOthers) {
  const std::vector<float> angles = {1, 1e30F, NAN, 0, -3e38F, HUGE_VALF, 5e9F, -2, -4e9F, 1e20F, 7};
  for (const Kind kind : {Kind::kSin, Kind::kCos, Kind::kTan}) {
    const std::vector<float> results = applied({kind}, angles);
    for (size_t i = 0; i < angles.size(); ++i)
      EXPECT_TRUE(same_bits(results[i], function_reference({kind}, angles[i]))) << angles[i];
  }
}

TEST_P(Functions, PowersAreTheReferenceAndThoseOfTheCLibrary) {
  const std::vector<float> special = {0,         -0.0F,      1,    -1,    2,      -2,    0.5F,
                                      -0.5F,     3,          -3,   1e30F, 1e-40F, NAN,   2.5F,
                                      HUGE_VALF, -HUGE_VALF, 1e9F, 7,     33,     -1e30F};
  std::vector<float> bases;
  std::vector<float> exponents;
  for (const float base : special) {
    for (const float exponent : special) {
      bases.push_back(base);
      exponents.push_back(exponent);
    }
  }
  for (int i = 0; i < 3000; ++i) {
    bases.push_back(static_cast<float>(std::exp(std::sin(i * 0.7) * 20)));
    exponents.push_back(static_cast<float>(std::cos(i * 1.3) * 4));
  }
  std::vector<float> results(bases.size());
  apply_power(bases, exponents, results);
  for (size_t i = 0; i < bases.size(); ++i) {
    const float expected = power_reference(bases[i], exponents[i]);
    ASSERT_TRUE(same_bits(results[i], expected)) << bases[i] << " ^ " << exponents[i];
    const long double exact =
        std::pow(static_cast<long double>(bases[i]), static_cast<long double>(exponents[i]));
    const auto rounded = static_cast<float>(exact);
    if (std::isfinite(rounded) && rounded != 0) {
      ASSERT_LE(error_in(results[i], exact), 0.51L) << bases[i] << " ^ " << exponents[i];
    } else {
      ASSERT_TRUE(same_bits(results[i], rounded)) << bases[i] << " ^ " << exponents[i];
    }
  }
  const std::vector<float> two = {2};
  apply_power(bases, two, results);
  for (size_t i = 0; i < bases.size(); ++i)
    ASSERT_TRUE(same_bits(results[i], bases[i] * bases[i])) << bases[i];
}

}  // namespace
}  // namespace detent

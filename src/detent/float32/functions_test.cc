#include "detent/float32/functions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
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
    {"silu", {Kind::kSilu}, [](long double x) { return x / (1 + std::exp(-x)); }},
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

std::vector<float> applied(const ElementFunction& function, const std::vector<float>& values) {
  std::vector<float> results(values.size());
  apply_function(function, values, results);
  return results;
}

bool same_bits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

/// In units of the last place of float32.
long double error_of(float result, long double exact) {
  int exponent = 0;
  std::frexp(exact, &exponent);
  constexpr int kLeastExponent = -149;
  const int last = exact == 0 ? kLeastExponent : std::max(exponent - 24, kLeastExponent);
  return std::fabs(static_cast<long double>(result) - exact) / std::ldexp(1.0L, last);
}

TEST(ElementFunctions, AreAsExactAsTheySay) {
  const std::vector<float> values = floats(30011);
  for (const Case& c : kCases) {
    const std::vector<float> results = applied(c.function, values);
    long double worst = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const long double exact = c.exact(values[i]);
      const auto rounded = static_cast<float>(exact);
      if (std::isinf(rounded) && std::isfinite(values[i])) {
        EXPECT_EQ(results[i], rounded) << c.name << " of " << values[i];
      } else if (std::isfinite(rounded) && (c.most_units < 1 || std::fabs(rounded) >= 0x1p-126F)) {
        worst = std::max(worst, error_of(results[i], exact));
      }
    }
    EXPECT_LE(worst, c.most_units) << c.name;
  }
}

TEST_P(Functions, AreTheReference) {
  for (const size_t count : {size_t{1}, size_t{7}, size_t{40}}) {
    const std::vector<float> few = floats((uint64_t{1} << 32) / count);
    for (const Case& c : kCases) {
      const std::vector<float> results = applied(c.function, few);
      for (size_t i = 0; i < few.size(); ++i)
        ASSERT_TRUE(same_bits(results[i], function_reference(c.function, few[i]))) << c.name << " " << few[i];
    }
  }
  const std::vector<float> values = floats(300007);
  for (const Case& c : kCases) {
    const std::vector<float> results = applied(c.function, values);
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_TRUE(same_bits(results[i], function_reference(c.function, values[i])))
          << c.name << " " << values[i];
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
    EXPECT_EQ(of(kind, -HUGE_VALF), 0);
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
      ASSERT_LE(error_of(results[i], exact), 0.51L) << bases[i] << " ^ " << exponents[i];
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

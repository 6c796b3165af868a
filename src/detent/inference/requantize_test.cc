#include "detent/inference/requantize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "detent/core/error.h"

namespace detent {
namespace {

/// round(x), ties away from zero, of a quotient with a power of two.
int64_t rounded_quotient(int64_t x, int exponent) {
  const int64_t half = exponent == 0 ? 0 : int64_t{1} << (exponent - 1);
  const int64_t magnitude = ((x < 0 ? -x : x) + half) >> exponent;
  return x < 0 ? -magnitude : magnitude;
}

TEST(Requantize, HighProductsRoundToNearest) {
  std::mt19937 generator(1);
  std::uniform_int_distribution<int32_t> any(std::numeric_limits<int32_t>::min());
  for (int i = 0; i < 100000; ++i) {
    const int32_t a = any(generator);
    const int32_t b = any(generator);
    const int64_t product = int64_t{a} * b;
    const int64_t away = rounded_quotient(product, 31);
    const int32_t got = rounding_high_product(a, b);
    // A negative tie goes up.
    const bool tie = (product & ((int64_t{1} << 31) - 1)) == int64_t{1} << 30;
    EXPECT_EQ(got, tie && product < 0 ? away + 1 : away) << a << " " << b;
  }
  constexpr int32_t kLowest = std::numeric_limits<int32_t>::min();
  EXPECT_EQ(rounding_high_product(kLowest, kLowest), std::numeric_limits<int32_t>::max());
  EXPECT_EQ(rounding_high_product(-1, 1 << 30), 0);
  EXPECT_EQ(rounding_high_product(1, 1 << 30), 1);
  EXPECT_EQ(rounding_high_product(-3, 1 << 30), -1);
}

TEST(Requantize, ShiftsRoundToNearestTiesAway) {
  for (int exponent = 0; exponent <= 31; ++exponent) {
    for (const int32_t x :
         {0, 1, -1, 2, -2, 3, -3, 5, -5, 6, -6, 1000, -1000, std::numeric_limits<int32_t>::max(),
          std::numeric_limits<int32_t>::min(), 1 << 30, -(1 << 30)}) {
      EXPECT_EQ(rounding_shift(x, exponent), rounded_quotient(x, exponent)) << x << " >> " << exponent;
    }
  }
}

TEST(Requantize, FixedMultipliersAreTheNearest) {
  EXPECT_EQ(FixedMultiplier::of(0.5).multiplier, 1 << 30);
  EXPECT_EQ(FixedMultiplier::of(0.5).shift, 0);
  EXPECT_EQ(FixedMultiplier::of(1).shift, 1);
  EXPECT_EQ(FixedMultiplier::of(std::nextafter(1.0, 0.0)).shift, 1) << "rounds up to a power of two";
  EXPECT_EQ(FixedMultiplier::of(0).multiplier, 0);
  EXPECT_EQ(FixedMultiplier::of(1e-12).multiplier, 0);
  EXPECT_THROW(FixedMultiplier::of(3e9), Error);
  std::mt19937 generator(2);
  std::uniform_real_distribution<double> exponent(-25, 8);
  for (int i = 0; i < 1000; ++i) {
    const double real = std::exp2(exponent(generator));
    const FixedMultiplier m = FixedMultiplier::of(real);
    EXPECT_GE(m.multiplier, 1 << 30);
    EXPECT_NEAR(std::ldexp(m.multiplier, m.shift - 31), real, real * 0x1p-31);
  }
}

TEST(Requantize, FixedProductsAreWithinOneOfTheExact) {
  std::mt19937 generator(3);
  std::uniform_int_distribution<int32_t> any(-(1 << 24), 1 << 24);
  std::uniform_real_distribution<double> exponent(-20, 6);
  for (int i = 0; i < 100000; ++i) {
    const int32_t x = any(generator);
    const double real = std::exp2(exponent(generator));
    EXPECT_NEAR(fixed_product(x, FixedMultiplier::of(real)), x * real, 1.0);
  }
}

}  // namespace
}  // namespace detent

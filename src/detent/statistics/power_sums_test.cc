#include "detent/statistics/power_sums.h"

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <bit>
#include <cmath>
#include <random>
#include <vector>

namespace detent {
namespace {

/// Finite and not zero.
std::vector<float> values_of(size_t count, bool wild, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values;
  while (values.size() < count) {
    const float value = wild ? std::bit_cast<float>(static_cast<uint32_t>(generator())) : normal(generator);
    if (std::isfinite(value) && value != 0) values.push_back(value);
  }
  return values;
}

struct Sums {
  PowerSums powers;
  HigherPowerSums higher;

  std::vector<std::byte> bytes() const {
    StateWriter writer;
    powers.write(writer);
    higher.write(writer);
    return writer.bytes();
  }
};

/// Value by value, by schoolbook multiplication in 128 bits.
void add_plainly(float value, Sums& sums) {
  int exponent = 0;
  const float fraction = std::frexp(std::fabs(value), &exponent);  // value = fraction * 2^exponent
  // As m * 2^(shift - 149) with an integer m and the smallest shift that is not negative.
  const int shift = std::max(0, exponent + 125);
  const auto m = static_cast<uint64_t>(std::ldexp(double{fraction}, exponent + 149 - shift));
  const auto at = static_cast<unsigned>(shift);
  const auto add = [](auto& sum, UInt128 number, unsigned by) {
    for (unsigned bit = 0; bit < 128; bit += 32)
      sum.add(static_cast<uint64_t>(number >> bit) & 0xFFFFFFFFU, by + bit);
  };
  sums.powers.values.add(value);
  add(sums.powers.squares, UInt128{m} * m, 2 * at);
  add(value < 0 ? sums.higher.negative_cubes : sums.higher.positive_cubes, UInt128{m} * m * m, 3 * at);
  add(sums.higher.fourths, UInt128{m} * m * m * m, 4 * at);
}

void add_fast(std::span<const float> values, Sums& sums, bool with_higher) {
  PowerAdder adder;
  Extremes extremes;
  SignBuffers buffers;
  const PowerTarget target = {&sums.powers, with_higher ? &sums.higher : nullptr};
  for (size_t i = 0; i < values.size(); i += kChunkValues) {
    extremes.add(values.subspan(i, std::min(kChunkValues, values.size() - i)), buffers);
    for (SignBuffer* buffer : {&buffers.positive, &buffers.negative}) {
      adder.add(buffer->chunk(), std::span(&target, 1));
      buffer->clear();
    }
  }
}

class PowerSumsOnEveryTarget : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

void expect_as_plain_loop(const std::vector<float>& values) {
  Sums plain;
  for (const float value : values) add_plainly(value, plain);
  Sums fast;
  add_fast(values, fast, true);
  EXPECT_TRUE(fast.bytes() == plain.bytes());
  Sums two;
  add_fast(values, two, false);
  two.higher = plain.higher;
  EXPECT_TRUE(two.bytes() == plain.bytes());
}

std::vector<std::byte> histogram_bytes(const KeyHistogram& histogram) {
  StateWriter writer;
  histogram.write(writer);
  return writer.bytes();
}

TEST_P(PowerSumsOnEveryTarget, CountKeysByTheWay) {
  constexpr int kKeyBits = 16;
  for (const bool wild : {false, true}) {
    for (const size_t count : std::initializer_list<size_t>{0, 1, 8, 9, 31, 1000, 4095, 4096}) {
      SCOPED_TRACE(testing::Message() << count << (wild ? " wild" : ""));
      std::vector<float> values = values_of(count, wild, static_cast<uint32_t>(count));
      for (float& value : values) value = std::fabs(value);
      const ValueScan scan = scan_values(values);
      for (const bool with_higher : {false, true}) {
        Sums sums;
        const PowerTarget target = {&sums.powers, with_higher ? &sums.higher : nullptr};
        KeyHistogram counted(kKeyBits);
        KeyCounter& counter = KeyCounter::of_thread(kKeyBits);
        PowerAdder().add({values, scan.positive}, std::span(&target, 1), &counter,
                         std::span(values).first(count / 3));
        counter.empty_into(counted);
        KeyHistogram plain(kKeyBits);
        plain.add({values, scan.positive});
        EXPECT_TRUE(histogram_bytes(counted) == histogram_bytes(plain));
        Sums alone;
        add_fast(values, alone, with_higher);
        EXPECT_TRUE(sums.bytes() == alone.bytes());
      }
    }
  }
}

TEST_P(PowerSumsOnEveryTarget, EqualThePlainLoopToTheLastBit) {
  for (const bool wild : {false, true}) {
    for (const size_t count : std::initializer_list<size_t>{0, 1, 2, 3, 4095, 4096, 4097, 20000}) {
      SCOPED_TRACE(testing::Message() << count << (wild ? " wild" : ""));
      expect_as_plain_loop(values_of(count, wild, static_cast<uint32_t>(count)));
    }
  }
}

// The most bits in the sums of a window: as many values as may be, all near its top or at its bottom, at the
// ends and in the middle of the range of float32.
TEST_P(PowerSumsOnEveryTarget, AtTheBoundsOfAWindow) {
  for (const int top : {-149, -127, -126, -120, -117, -118, 0, 127}) {
    const float largest = std::ldexp(std::nextafter(2.0F, 0.0F), top);
    for (const int below : {0, 3, 4, 5, 6, 20}) {
      const float smallest = std::max(std::ldexp(1.0F, top - below), 0x1p-149F);
      for (const float sign : {1.0F, -1.0F}) {
        SCOPED_TRACE(testing::Message() << sign * largest << " and " << smallest);
        std::vector<float> values(kChunkValues, sign * largest);
        expect_as_plain_loop(values);
        for (size_t i = 1; i < values.size(); i += 2) values[i] = std::nextafter(smallest, largest);
        expect_as_plain_loop(values);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, PowerSumsOnEveryTarget,
                         testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& instance) { return std::string(hwy::TargetName(instance.param)); });

TEST(PowerSums, HoldTheExtremesOfFloat) {
  constexpr float kMax = std::numeric_limits<float>::max();
  const std::vector<float> values(kChunkValues, -kMax);
  Sums sums;
  add_fast(values, sums, true);
  constexpr double kCount = kChunkValues;
  EXPECT_EQ(static_cast<double>(sums.powers.sum(false)), -kCount * double{kMax});
  EXPECT_EQ(static_cast<double>(sums.powers.sum(true)), kCount * double{kMax});
  EXPECT_EQ(static_cast<double>(sums.powers.square_sum()), kCount * double{kMax} * double{kMax});
  EXPECT_DOUBLE_EQ(static_cast<double>(sums.higher.cube_sum()), -kCount * std::pow(double{kMax}, 3));
  EXPECT_DOUBLE_EQ(static_cast<double>(sums.higher.fourth_sum()), kCount * std::pow(double{kMax}, 4));

  Sums small;
  add_fast(std::vector<float>(3, 0x1p-149F), small, true);
  EXPECT_EQ(static_cast<double>(small.powers.square_sum()), 3 * 0x1p-298);
  EXPECT_EQ(static_cast<double>(small.higher.cube_sum()), 3 * 0x1p-447);
  EXPECT_EQ(static_cast<double>(small.higher.fourth_sum()), 3 * 0x1p-596);
}

TEST(WideInteger, CarriesAndBorrows) {
  WideInteger<3> a;
  a.add(~uint64_t{0}, 0);
  a.add(~uint64_t{0}, 64);
  a.add(1, 0);
  EXPECT_EQ(static_cast<double>(a.scaled(0)), 0x1p128);
  WideInteger<3> one;
  one.add(1, 0);
  EXPECT_TRUE(one < a);
  EXPECT_FALSE(a < one);
  WideInteger<3> sum = a.minus(one);
  sum.merge(one);
  EXPECT_FALSE(sum < a || a < sum);
  EXPECT_EQ(static_cast<double>(one.scaled(1)), 0x1p-149);
}

}  // namespace
}  // namespace detent

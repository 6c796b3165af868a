#include "detent/statistics/key_counter.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <map>
#include <random>

#include "detent/statistics/kept_values.h"
#include "detent/statistics/scan.h"

namespace detent {
namespace {

std::vector<float> wild_values(size_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<float> values;
  while (values.size() < count) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(generator()));
    if (std::isfinite(value) && value != 0) values.push_back(value);
  }
  return values;
}

FiniteChunk chunk_of(std::span<const float> values) {
  const ValueScan scan = scan_values(values);
  Magnitudes magnitudes = scan.positive;
  magnitudes.merge(scan.negative);
  return {values, magnitudes};
}

KeyHistogram histogram_of(std::span<const float> values, int key_bits) {
  KeyHistogram histogram(key_bits);
  for (size_t i = 0; i < values.size(); i += kChunkValues)
    histogram.add(chunk_of(values.subspan(i, std::min(kChunkValues, values.size() - i))));
  return histogram;
}

std::vector<std::byte> bytes_of(const KeyHistogram& histogram) {
  StateWriter writer;
  histogram.write(writer);
  return writer.bytes();
}

TEST(KeyHistogram, CountsEachValueInTheCellThatHoldsIt) {
  const std::vector<float> values = wild_values(20000, 1);
  for (const int bits : {12, 16, 20, 24}) {
    const std::vector<ValueBin> cells = histogram_of(values, bits).cells();
    std::map<uint32_t, int64_t> expected;
    for (const float value : values) ++expected[std::bit_cast<uint32_t>(value) >> (32 - bits)];
    EXPECT_EQ(cells.size(), expected.size());
    float previous = -std::numeric_limits<float>::infinity();
    for (const ValueBin& cell : cells) {
      EXPECT_LT(previous, cell.upper);
      EXPECT_LE(cell.lower, cell.upper);
      const float inside = cell.lower == 0 ? cell.upper : cell.lower;
      EXPECT_EQ(cell.count, expected[std::bit_cast<uint32_t>(inside) >> (32 - bits)]);
      previous = cell.upper;
    }
  }
}

TEST(KeyHistogram, MiddlesAreWithinTheStatedError) {
  for (const int bits : {12, 16, 20}) {
    for (const ValueBin& cell : histogram_of(wild_values(20000, 2), bits).cells()) {
      const double middle = (double{cell.lower} + double{cell.upper}) / 2;
      for (const double value : {double{cell.lower}, double{cell.upper}}) {
        const double bound = std::ldexp(std::max(std::fabs(value), 0x1p-126), 8 - bits);
        EXPECT_LE(std::fabs(middle - value), bound) << cell.lower << " to " << cell.upper;
      }
    }
  }
}

TEST(KeyHistogram, MergesAndCoarsensAsIfItHadCountedEverything) {
  const std::vector<float> values = wild_values(9000, 3);
  const KeyHistogram whole = histogram_of(values, 20);
  KeyHistogram merged = histogram_of(std::span(values).first(17), 20);
  merged.merge(histogram_of(std::span(values).subspan(17), 20));
  EXPECT_EQ(bytes_of(merged), bytes_of(whole));
  EXPECT_EQ(bytes_of(whole.coarsened(13)), bytes_of(histogram_of(values, 13)));
}

TEST(KeyHistogram, CountsBeyond32Bits) {
  KeyHistogram histogram = histogram_of(std::vector<float>{1.0F, 1.0F, -3.0F}, 20);
  for (int i = 0; i < 33; ++i) {
    KeyHistogram same(20);
    same.merge(histogram);
    histogram.merge(same);
  }
  histogram.add(chunk_of(std::vector<float>{1.0F}));
  const auto cells = histogram.cells();
  ASSERT_EQ(cells.size(), 2U);
  EXPECT_EQ(cells[0].count, int64_t{1} << 33);
  EXPECT_EQ(cells[1].count, (int64_t{1} << 34) + 1);
  EXPECT_EQ(histogram.total(), 3 * (int64_t{1} << 33) + 1);
  KeyHistogram read(20);
  const auto bytes = bytes_of(histogram);
  StateReader reader(bytes);
  read.read(reader);
  EXPECT_EQ(bytes_of(read), bytes);
}

TEST(KeyHistogram, CountersThatPass16Bits) {
  KeyHistogram histogram(12);
  for (int i = 0; i < 40; ++i) {
    std::vector<float> values(kChunkValues, 1.5F);
    values[7] = -1e-40F;
    histogram.add(chunk_of(values));
  }
  const auto cells = histogram.cells();
  ASSERT_EQ(cells.size(), 2U);
  EXPECT_EQ(cells[0].count, 40);
  EXPECT_EQ(cells[1].count, 40 * (int64_t{kChunkValues} - 1));
}

TEST(KeptValues, ExactOnesAreSorted) {
  for (const size_t count : std::initializer_list<size_t>{0, 1, 100, 511, 512, 3000}) {
    std::vector<float> values = wild_values(count, 7);
    values.insert(values.end(), values.begin(), values.begin() + static_cast<std::ptrdiff_t>(count / 3));
    KeptValues kept({.exact_values = 1 << 16, .key_bits = 20});
    kept.resize(1);
    kept.add(0, chunk_of(values));
    std::map<float, int64_t> expected;
    for (const float value : values) ++expected[value];
    const std::vector<ValueBin> bins = kept.exact_bins(0);
    ASSERT_EQ(bins.size(), expected.size());
    auto bin = bins.begin();
    for (const auto& [value, equal] : expected) {
      EXPECT_EQ(bin->lower, value);
      EXPECT_EQ(bin->upper, value);
      EXPECT_EQ(bin++->count, equal);
    }
  }
}

/// One histogram counts values directly, the other through the thread's counter.
TEST(KeyCounter, CountsAsTheHistogramDoes) {
  for (const int key_bits : {12, 16, 20, 24}) {
    KeyHistogram direct(key_bits);
    KeyHistogram counted(key_bits);
    KeyCounter& counter = KeyCounter::of_thread(key_bits);
    std::mt19937 generator(5);
    std::normal_distribution<float> normal;
    for (int round = 0; round < 30; ++round) {
      std::vector<float> values(kChunkValues, -2.0F);
      for (size_t i = 0; i < values.size(); i += 3) values[i] = normal(generator) + 1e-3F;
      const FiniteChunk chunk = chunk_of(values);
      direct.add(chunk);
      counter.add(chunk);
      if (round % 25 == 0) counter.empty_into(counted);
    }
    counter.empty_into(counted);
    EXPECT_EQ(bytes_of(counted), bytes_of(direct)) << key_bits;
    EXPECT_EQ(counted.total(), direct.total());
  }
}

TEST(KeyCounter, GivesWhatIsPositiveToAnotherToo) {
  const std::vector<float> values = wild_values(30000, 6);
  std::vector<float> positive;
  std::ranges::copy_if(values, std::back_inserter(positive), [](float value) { return value > 0; });
  KeyHistogram all(16);
  KeyHistogram post_relu(16);
  KeyCounter& counter = KeyCounter::of_thread(16);
  counter.add(chunk_of(values));
  counter.empty_into(all, &post_relu);
  EXPECT_EQ(bytes_of(all), bytes_of(histogram_of(values, 16)));
  EXPECT_EQ(bytes_of(post_relu), bytes_of(histogram_of(positive, 16)));
}

TEST(KeyCounter, ForgetsWhatWasNotEmptied) {
  const std::vector<float> values = {1, 2};
  KeyCounter::of_thread(20).add(chunk_of(values));
  KeyHistogram histogram(20);
  KeyCounter::of_thread(20).empty_into(histogram);
  EXPECT_EQ(histogram.total(), 0);
}

}  // namespace
}  // namespace detent

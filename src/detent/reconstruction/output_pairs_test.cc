#include "detent/reconstruction/output_pairs.h"

#include <algorithm>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace detent {
namespace {

struct Pair {
  Tensor wanted;
  Tensor got;
};

/// Channels with means from far below 0 to above, and errors that grow with the output.
Pair drawn_pair(Shape shape, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> draw;
  Pair pair{Tensor(DType::kFloat32, shape), Tensor(DType::kFloat32, shape)};
  const int64_t inner = element_count({shape.begin() + 2, shape.end()});
  for (int64_t i = 0; i < pair.wanted.numel(); ++i) {
    const auto channel = static_cast<float>(i / inner % shape[1]);
    const float value = channel - 3 + draw(random);
    const auto at = static_cast<size_t>(i);
    pair.wanted.values<float>()[at] = value;
    pair.got.values<float>()[at] = 1.2F * value + 0.3F * draw(random);
  }
  return pair;
}

double error(const Pair& pair, int64_t channel, double low, double shift) {
  const int64_t inner = element_count({pair.wanted.shape().begin() + 2, pair.wanted.shape().end()});
  double sum = 0;
  for (int64_t i = 0; i < pair.wanted.numel(); ++i) {
    if (i / inner % pair.wanted.dim(1) != channel) continue;
    const auto at = static_cast<size_t>(i);
    const double difference = std::max(low, static_cast<double>(pair.wanted.values<float>()[at])) -
                              std::max(low, static_cast<double>(pair.got.values<float>()[at]) + shift);
    sum += difference * difference;
  }
  return sum;
}

TEST(OutputPairs, FindsTheShiftOfLeastErrorAfterARectifier) {
  const Pair pair = drawn_pair({40, 5, 6, 2}, 1);
  OutputPairs pairs;
  pairs.add(pair.wanted.rows(0, 25), pair.got.rows(0, 25), 1);
  pairs.add(pair.wanted.rows(25, 40), pair.got.rows(25, 40), 1);
  EXPECT_EQ(pairs.positions(), 40 * 12);
  const std::vector<double> shifts = pairs.shifts({.low = 0});
  for (int64_t channel = 0; channel < 5; ++channel) {
    double least = error(pair, channel, 0, 0);
    for (int step = -2000; step <= 2000; ++step)
      least = std::min(least, error(pair, channel, 0, 0.001 * step));
    const double found = error(pair, channel, 0, shifts[static_cast<size_t>(channel)]);
    EXPECT_NEAR(found, least, 1e-3 * least) << channel;
  }
}

TEST(OutputPairs, IsTheMeanWhereNothingIsCutOff) {
  const Pair pair = drawn_pair({300, 3}, 2);
  OutputPairs pairs;
  pairs.add(pair.wanted, pair.got, 1);
  for (int64_t channel = 0; channel < 3; ++channel) {
    double mean = 0;
    for (int64_t n = 0; n < 300; ++n) {
      const auto at = static_cast<size_t>(n * 3 + channel);
      mean += static_cast<double>(pair.wanted.values<float>()[at]) -
              static_cast<double>(pair.got.values<float>()[at]);
    }
    EXPECT_NEAR(pairs.shifts({})[static_cast<size_t>(channel)], mean / 300, 1e-6);
  }
}

/// A channel that both networks cut off everywhere stays as it is.
TEST(OutputPairs, LeavesDeadChannelsAlone) {
  const Tensor wanted = Tensor::from({4, 1}, std::vector<float>{-1, -2, -3, -4});
  const Tensor got = Tensor::from({4, 1}, std::vector<float>{-5, -6, -7, -8});
  OutputPairs pairs;
  pairs.add(wanted, got, 1);
  EXPECT_EQ(pairs.shifts({.low = 0}), std::vector<double>{0});
}

TEST(OutputPairs, KeepsABoundedNumberOfPositions) {
  const Pair pair = drawn_pair({2000, 4}, 3);
  OutputPairs few(1000);
  OutputPairs all;
  few.add(pair.wanted, pair.got, 1);
  all.add(pair.wanted, pair.got, 1);
  EXPECT_LE(int64_t{2} * 4 * few.positions(), 1000);
  EXPECT_GE(int64_t{2} * 4 * few.positions(), 333);
  OutputPairs in_parts(1000);  // how the data was cut does not show
  for (int64_t n = 0; n < 2000; n += 125)
    in_parts.add(pair.wanted.rows(n, n + 125), pair.got.rows(n, n + 125), 1);
  OutputPairs backwards(1000);  // nor in which order it came
  for (int64_t n = 2000; n > 0; n -= 40)
    backwards.add(pair.wanted.rows(n - 40, n), pair.got.rows(n - 40, n), 1);
  for (OutputPairs* pairs : {&few, &in_parts, &backwards}) pairs->sort();
  const std::vector<double> shifts = few.shifts({.low = 0});
  EXPECT_EQ(in_parts.shifts({.low = 0}), shifts);
  EXPECT_EQ(backwards.shifts({.low = 0}), shifts);
  for (size_t channel = 0; channel < 4; ++channel)
    EXPECT_NEAR(shifts[channel], all.shifts({.low = 0})[channel], 0.2);
}

/// Newton's method of one channel alone.
double reference_shift(const Pair& pair, int64_t channel, const Clamp& clamp) {
  const auto clamped = [](double value, const Clamp& by) {
    return std::min(std::max(value, by.low), by.high);
  };
  const auto sums = [&](const Clamp& by, double shift) {
    double squares = 0;
    double sum = 0;
    double count = 0;
    for (int64_t n = 0; n < pair.wanted.dim(0); ++n) {
      const auto at = static_cast<size_t>(n * pair.wanted.dim(1) + channel);
      const double wanted = clamped(static_cast<double>(pair.wanted.values<float>()[at]), by);
      const auto got = static_cast<double>(pair.got.values<float>()[at]);
      const double difference = wanted - clamped(got + shift, by);
      squares += difference * difference;
      if (!(got + shift > by.low && got + shift < by.high)) continue;
      sum += wanted - got;
      ++count;
    }
    return std::pair(squares, count == 0 ? shift : sum / count);
  };
  double best = 0;
  double least = sums(clamp, 0).first;
  for (const double start : {0.0, sums({}, 0).second}) {
    double shift = start;
    double before = HUGE_VAL;
    for (int step = 0; step < 16; ++step) {
      const auto [now, next] = sums(clamp, shift);
      if (now < least) {
        least = now;
        best = shift;
      }
      if (!(now < before)) break;
      before = now;
      shift = next;
    }
  }
  return best;
}

TEST(OutputPairs, ShiftsChannelsTogetherAsEachAlone) {
  for (const int64_t channels : {1, 7, 16, 37}) {
    for (const Clamp& clamp :
         {Clamp(), Clamp{.low = 0}, Clamp{.low = 0, .high = 6}, Clamp{.low = 9, .high = 9.5}}) {
      const Pair pair = drawn_pair({50, channels}, static_cast<uint32_t>(channels));
      OutputPairs pairs;
      pairs.add(pair.wanted, pair.got, 1);
      const std::vector<double> shifts = pairs.shifts(clamp);
      for (int64_t c = 0; c < channels; ++c)
        EXPECT_EQ(shifts[static_cast<size_t>(c)], reference_shift(pair, c, clamp)) << c << " of " << channels;
    }
  }
}

}  // namespace
}  // namespace detent

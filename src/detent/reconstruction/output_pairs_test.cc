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
  for (int64_t channel = 0; channel < 5; ++channel) {
    double least = error(pair, channel, 0, 0);
    for (int step = -2000; step <= 2000; ++step)
      least = std::min(least, error(pair, channel, 0, 0.001 * step));
    const double found = error(pair, channel, 0, pairs.shift(channel, {.low = 0}));
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
    EXPECT_NEAR(pairs.shift(channel, {}), mean / 300, 1e-6);
  }
}

/// A channel that both networks cut off everywhere stays as it is.
TEST(OutputPairs, LeavesDeadChannelsAlone) {
  const Tensor wanted = Tensor::from({4, 1}, std::vector<float>{-1, -2, -3, -4});
  const Tensor got = Tensor::from({4, 1}, std::vector<float>{-5, -6, -7, -8});
  OutputPairs pairs;
  pairs.add(wanted, got, 1);
  EXPECT_EQ(pairs.shift(0, {.low = 0}), 0);
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
  for (int64_t channel = 0; channel < 4; ++channel) {
    EXPECT_EQ(in_parts.shift(channel, {.low = 0}), few.shift(channel, {.low = 0}));
    EXPECT_EQ(backwards.shift(channel, {.low = 0}), few.shift(channel, {.low = 0}));
    EXPECT_NEAR(few.shift(channel, {.low = 0}), all.shift(channel, {.low = 0}), 0.2);
  }
}

}  // namespace
}  // namespace detent

#include "detent/kernels/channels_last_sums.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "detent/formats/every_target_test.h"
#include "detent/kernels/row_reductions.h"

namespace detent {
namespace {

class ChannelsLast : public EveryTargetTest {};
DETENT_ON_EVERY_TARGET(ChannelsLast);

std::vector<float> normal(size_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> draw;
  std::vector<float> values(count);
  for (float& value : values) value = draw(generator);
  return values;
}

float ended(const SumsEnd& end, float sum, size_t output) {
  if (end.bias != nullptr) sum += end.bias[output];
  if (end.scale != nullptr) sum = std::fma(sum, end.scale[output], end.shift[output]);
  if (!end.clamps) return sum;
  return sum < end.low ? end.low : sum > end.high ? end.high : sum;
}

struct Layer {
  int64_t channels;
  std::vector<int64_t> taps;
  int64_t blocks;
  int64_t outputs;
  int64_t windows;
  int64_t packed_apart = 1;  // packed taps from one that counts to the next

  int64_t packed_taps() const { return std::ssize(taps) * packed_apart; }
  std::vector<SumTap> sum_taps() const {
    std::vector<SumTap> all;
    for (const int64_t tap : taps) all.push_back({tap, (std::ssize(all) + 1) * packed_apart - 1});
    return all;
  }
  size_t width() const { return static_cast<size_t>(blocks * kSumOutputs); }
};

/// One sum: the start, then channel by channel all taps, with one rounding a product.
float expected_sum(const Layer& layer, const ChannelsLastSums& sums, int64_t window, int64_t output) {
  float sum = sums.start[output];
  for (int64_t c = 0; c < layer.channels; ++c) {
    for (const SumTap& tap : layer.sum_taps()) {
      const auto row = static_cast<size_t>(c * layer.packed_taps() + tap.packed);
      const float weight = sums.weights[row * layer.width() + static_cast<size_t>(output)];
      sum = std::fma(sums.windows[window][tap.at + c], weight, sum);
    }
  }
  return ended(sums.end, sum, static_cast<size_t>(output));
}

TEST_P(ChannelsLast, SumsAreInTheOrderStated) {
  const Layer layers[] = {{3, {0, 3, 6, 40, 43, 46}, 1, 16, 1},
                          {5, {0}, 2, 32, 14},
                          {17, {0, 21}, 2, 20, 15},
                          {1, {0, 2}, 1, 5, 29},
                          {8, {0, 9, 18}, 2, 31, 43},
                          {33, {7}, 1, 1, 3},
                          {9, {4, 11}, 2, 32, 15, 3},
                          {9, {4}, 2, 32, 15, 4},
                          {9, {4, 11}, 1, 16, 29, 2},
                          {9, {4}, 1, 16, 29, 4}};
  for (const Layer& layer : layers) {
    SCOPED_TRACE(layer.windows);
    const std::vector<float> input = normal(4000, 1);
    const std::vector<float> weights =
        normal(static_cast<size_t>(layer.channels * layer.packed_taps()) * layer.width(), 2);
    const std::vector<SumTap> taps = layer.sum_taps();
    const std::vector<float> ends = normal(4 * layer.width(), 3);
    std::vector<const float*> windows;
    std::vector<float*> results;
    const int64_t pitch = layer.outputs + 1;  // what lies between stays as it is
    std::vector<float> output(static_cast<size_t>(layer.windows * pitch), 123);
    for (int64_t i = 0; i < layer.windows; ++i) {
      windows.push_back(input.data() + 11 * i);
      results.push_back(output.data() + pitch * i);
    }
    for (const bool has_ends : {false, true}) {
      ChannelsLastSums sums{.windows = windows.data(),
                            .results = results.data(),
                            .count = layer.windows,
                            .taps = taps,
                            .channels = layer.channels,
                            .weights = weights.data(),
                            .packed_taps = layer.packed_taps(),
                            .blocks = layer.blocks,
                            .outputs = layer.outputs,
                            .start = ends.data(),
                            .end = {}};
      if (has_ends) {
        sums.end = {.bias = ends.data() + layer.width(),
                    .scale = ends.data() + 2 * layer.width(),
                    .shift = ends.data() + 3 * layer.width(),
                    .clamps = true,
                    .low = -0.5F,
                    .high = 1};
      }
      add_channels_last(sums);
      for (int64_t i = 0; i < layer.windows; ++i) {
        for (int64_t o = 0; o < layer.outputs; ++o)
          ASSERT_EQ(results[static_cast<size_t>(i)][o], expected_sum(layer, sums, i, o)) << i << " " << o;
        ASSERT_EQ(results[static_cast<size_t>(i)][layer.outputs], 123);
      }
    }
  }
}

/// Outputs from the third on, with something added to them and clamped.
TEST_P(ChannelsLast, WhatIsAddedComesAfterTheSums) {
  const Layer layer{4, {0, 5}, 2, 23, 17};
  const std::vector<SumTap> taps = layer.sum_taps();
  const std::vector<float> input = normal(400, 11);
  const std::vector<float> weights = normal(size_t{4} * 2 * 32, 12);
  const std::vector<float> start = normal(32, 13);
  const std::vector<float> addends = normal(size_t{17} * 26 + 32, 14);
  std::vector<float> output(size_t{17} * 26, 123);
  std::vector<const float*> windows;
  std::vector<float*> results;
  std::vector<const float*> others;
  for (int64_t i = 0; i < layer.windows; ++i) {
    windows.push_back(input.data() + 9 * i);
    results.push_back(output.data() + 26 * i);
    others.push_back(addends.data() + 26 * i);
  }
  const ChannelsLastSums sums{.windows = windows.data(),
                              .results = results.data(),
                              .count = layer.windows,
                              .taps = taps,
                              .channels = layer.channels,
                              .weights = weights.data(),
                              .packed_taps = layer.packed_taps(),
                              .blocks = layer.blocks,
                              .outputs = layer.outputs,
                              .first_output = 3,
                              .start = start.data(),
                              .end = {.clamps = true, .low = -1},
                              .others = others.data(),
                              .last = {.clamps = true, .high = 1.5F}};
  add_channels_last(sums);
  for (int64_t i = 0; i < layer.windows; ++i) {
    for (int64_t o = 0; o < 26; ++o) {
      const float sum = o < 3 ? 0 : expected_sum(layer, sums, i, o - 3);
      const float wanted = o < 3 ? 123 : ended(sums.last, sum + others[static_cast<size_t>(i)][o], 0);
      ASSERT_EQ(results[static_cast<size_t>(i)][o], wanted) << i << " " << o;
    }
  }
}

TEST_P(ChannelsLast, SumsOfSomeChannelsAtATimeAreThoseOfAll) {
  const Layer layer{21, {0, 25, 50}, 2, 27, 31};
  const std::vector<SumTap> taps = layer.sum_taps();
  const std::vector<float> input = normal(2000, 4);
  const std::vector<float> weights = normal(size_t{21} * 3 * 32, 5);
  const std::vector<float> start = normal(32, 6);
  std::vector<const float*> windows;
  for (int64_t i = 0; i < layer.windows; ++i) windows.push_back(input.data() + 23 * i);
  const auto computed = [&](int64_t at_once) {
    std::vector<float> output(size_t{31} * 27);
    std::vector<float*> results;
    for (int64_t i = 0; i < layer.windows; ++i) results.push_back(output.data() + 27 * i);
    std::vector<float> partial(size_t{31} * 32);
    ChannelsLastSums sums{.windows = windows.data(),
                          .results = results.data(),
                          .count = layer.windows,
                          .taps = taps,
                          .channels = 0,
                          .weights = weights.data(),
                          .packed_taps = layer.packed_taps(),
                          .blocks = layer.blocks,
                          .outputs = layer.outputs,
                          .start = start.data(),
                          .end = {.clamps = true, .low = 0},
                          .next = weights.data()};
    for (int64_t left = layer.channels; left > 0;) {
      sums.channels = std::min(at_once, left);
      left -= sums.channels;
      sums.sums_after = left > 0 ? partial.data() : nullptr;
      add_channels_last(sums);
      sums.sums_before = partial.data();
      sums.first_channel += sums.channels;
      sums.weights += sums.channels * 3 * 32;
    }
    return output;
  };
  const std::vector<float> all = computed(21);
  for (const int64_t at_once : {1, 8, 20}) EXPECT_EQ(computed(at_once), all);
}

TEST_P(ChannelsLast, DepthwiseSumsAreInTheOrderStated) {
  for (const int64_t channels : {1, 7, 16, 19, 48}) {
    for (const int64_t windows : {1, 4, 6}) {
      const auto padded = static_cast<size_t>((channels + kSumOutputs - 1) / kSumOutputs * kSumOutputs);
      const std::vector<int64_t> taps = {0, channels, 10 * channels, 11 * channels};
      const std::vector<float> input = normal(static_cast<size_t>(30 * channels + kSumOutputs), 7);
      const std::vector<float> weights = normal(taps.size() * padded, 8);
      const std::vector<float> start = normal(padded, 9);
      std::vector<float> output(static_cast<size_t>(windows * channels) + 1, 123);
      const ChannelsLastDepthwise sums{.input = input.data(),
                                       .window_step = 2 * channels,
                                       .windows = windows,
                                       .taps = taps,
                                       .weights = weights.data(),
                                       .channels = channels,
                                       .start = start.data(),
                                       .end = {.clamps = true, .low = 0, .high = 1},
                                       .result = output.data()};
      add_channels_last_depthwise(sums);
      for (int64_t i = 0; i < windows * channels; ++i) {
        const auto c = static_cast<size_t>(i % channels);
        float sum = start[c];
        for (size_t t = 0; t < taps.size(); ++t) {
          const auto at = static_cast<size_t>(i / channels * 2 * channels + taps[t]) + c;
          sum = std::fma(input[at], weights[t * padded + c], sum);
        }
        ASSERT_EQ(output[static_cast<size_t>(i)], ended(sums.end, sum, c)) << channels << " " << i;
      }
      ASSERT_EQ(output.back(), 123);
    }
  }
}

/// Windows of 3 x 3 positions side by side share the values they read.
TEST_P(ChannelsLast, SquareDepthwiseSumsAreInTheOrderStated) {
  for (const int64_t channels : {3, 16, 37}) {
    for (const int64_t stride : {1, 2, 3}) {
      for (int64_t windows = 1; windows < 17; ++windows) {
        const auto padded = static_cast<size_t>((channels + kSumOutputs - 1) / kSumOutputs * kSumOutputs);
        std::vector<int64_t> taps;
        for (int64_t t = 0; t < 9; ++t) taps.push_back((t / 3 * 60 + t % 3) * channels);
        const std::vector<float> input = normal(static_cast<size_t>(180 * channels + kSumOutputs), 7);
        const std::vector<float> weights = normal(taps.size() * padded, 8);
        const std::vector<float> start = normal(padded, 9);
        std::vector<float> output(static_cast<size_t>(windows * channels) + 1, 123);
        add_channels_last_depthwise({.input = input.data(),
                                     .window_step = stride * channels,
                                     .windows = windows,
                                     .taps = taps,
                                     .weights = weights.data(),
                                     .channels = channels,
                                     .start = start.data(),
                                     .end = {},
                                     .result = output.data()});
        for (int64_t i = 0; i < windows * channels; ++i) {
          const auto c = static_cast<size_t>(i % channels);
          float sum = start[c];
          for (size_t t = 0; t < taps.size(); ++t) {
            const auto at = static_cast<size_t>(i / channels * stride * channels + taps[t]) + c;
            sum = std::fma(input[at], weights[t * padded + c], sum);
          }
          ASSERT_EQ(output[static_cast<size_t>(i)], sum) << channels << " " << stride << " " << i;
        }
        ASSERT_EQ(output.back(), 123);
      }
    }
  }
}

/// As relu and clamps of float32/operators do.
TEST_P(ChannelsLast, ClampingKeepsNaNAndTheSignOfZero) {
  const SumsEnd end{.clamps = true, .low = 0, .high = 6};
  std::vector<float> values(19, -1);
  values[3] = NAN;
  values[17] = -0.0F;
  values[18] = 7;
  std::vector<float> results(19);
  end_sums(end, values.data(), 19, 1, results.data());
  EXPECT_TRUE(std::isnan(results[3]));
  EXPECT_TRUE(std::signbit(results[17]));
  EXPECT_EQ(results[17], 0);
  EXPECT_EQ(results[18], 6);
  EXPECT_EQ(results[0], 0);
  const std::vector<float> zeros(19, -0.0F);
  add_values(end, values.data(), zeros.data(), 19, results.data());
  EXPECT_TRUE(std::isnan(results[3]));
  EXPECT_TRUE(std::signbit(results[17]));
  EXPECT_EQ(results[18], 6);
}

TEST_P(ChannelsLast, PlanesEndAsPositionsDo) {
  constexpr int64_t kPositions = 32;
  constexpr int64_t kChannels = 3;
  std::vector<float> planes = normal(kPositions * kChannels, 30);
  planes[3] = NAN;
  planes[17] = -0.0F;
  const std::vector<float> bias = normal(kSumOutputs, 31);
  const std::vector<float> scale = normal(kSumOutputs, 32);
  const std::vector<float> shift = normal(kSumOutputs, 33);
  for (const bool adds : {false, true}) {
    for (const bool scales : {false, true}) {
      for (const bool clamps : {false, true}) {
        const SumsEnd end{.bias = adds ? bias.data() : nullptr,
                          .scale = scales ? scale.data() : nullptr,
                          .shift = scales ? shift.data() : nullptr,
                          .clamps = clamps,
                          .low = clamps ? 0 : -INFINITY,
                          .high = clamps ? 1 : INFINITY};
        std::vector<float> results = planes;
        end_planes(end, results.data(), kPositions, kChannels);
        std::vector<float> expected(planes.size());
        for (size_t i = 0; i < planes.size(); ++i)
          expected[i % kPositions * kChannels + i / kPositions] = planes[i];
        end_sums(end, expected.data(), kChannels, kPositions, expected.data());
        for (size_t i = 0; i < planes.size(); ++i) {
          const float wanted = expected[i % kPositions * kChannels + i / kPositions];
          EXPECT_TRUE(results[i] == wanted || (std::isnan(results[i]) && std::isnan(wanted))) << i;
          EXPECT_EQ(std::signbit(results[i]), std::signbit(wanted)) << i;
        }
      }
    }
  }
}

TEST_P(ChannelsLast, TheLargestIsNaNWhereOneIsAmongThem) {
  std::vector<std::vector<float>> rows;
  for (uint32_t i = 0; i < 5; ++i) rows.push_back(normal(101, 20 + i));
  rows[0][3] = NAN;
  rows[2][4] = NAN;
  rows[0][36] = -0.0F;
  for (size_t i = 1; i < rows.size(); ++i) rows[i][36] = 0;
  std::vector<const float*> pointers;
  for (const std::vector<float>& row : rows) pointers.push_back(row.data());
  std::vector<float> results(101);
  largest_of_rows(pointers.data(), 5, 101, results.data());
  for (size_t i = 0; i < results.size(); ++i) {
    float largest = rows[0][i];
    for (const std::vector<float>& row : rows)
      largest = std::isnan(row[i]) || row[i] > largest ? row[i] : largest;
    EXPECT_EQ(std::isnan(results[i]), i == 3 || i == 4) << i;
    EXPECT_TRUE(results[i] == largest || (std::isnan(results[i]) && std::isnan(largest))) << i;
    EXPECT_EQ(std::signbit(results[i]), std::signbit(largest)) << i;
  }
}

/// One sum: what is there, then channel by channel all taps, with one rounding a product.
float expected_plane_sum(const PlaneSums& s, float sum, int64_t output, int64_t window) {
  const float* weight = s.weights + output;
  for (int64_t c = 0; c < s.channels; ++c) {
    for (const int64_t tap : s.taps) {
      sum = std::fma(s.planes[c * s.plane + tap + window], *weight, sum);
      weight += s.outputs;
    }
  }
  return sum;
}

TEST_P(ChannelsLast, SumsOfPlanesAreInTheOrderStated) {
  const std::vector<int64_t> taps = {0, 1, 5, 40, 3};
  const std::vector<float> planes = normal(4000, 1);
  const std::vector<float> weights = normal(std::size_t{7} * 5 * 8, 2);
  for (const int64_t windows : {16, 32, 48, 112, 160, 272}) {
    for (int64_t outputs = 1; outputs <= 8; ++outputs) {
      const std::vector<float> before = normal(static_cast<size_t>(outputs * windows), 3);
      std::vector<float> sums = before;
      const PlaneSums all{.planes = planes.data(),
                          .plane = 500,
                          .channels = 7,
                          .taps = taps,
                          .weights = weights.data(),
                          .outputs = outputs,
                          .windows = windows,
                          .sums = sums.data()};
      add_planes(all);
      for (int64_t o = 0; o < outputs; ++o) {
        for (int64_t i = 0; i < windows; ++i) {
          const auto at = static_cast<size_t>(o * windows + i);
          ASSERT_EQ(sums[at], expected_plane_sum(all, before[at], o, i)) << o << " " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace detent

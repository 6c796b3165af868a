#include "detent/engine/machine_limits.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <vector>

#include "detent/engine/kernels/kernel_set.h"
#include "detent/engine/packed_sums.h"
#include "detent/kernels/channels_last_sums.h"

namespace detent {
namespace {

using Clock = std::chrono::steady_clock;

template <class Work>
double least_seconds(int runs, const Work& work) {
  double least = 1e9;
  for (int i = 0; i < runs; ++i) {
    const Clock::time_point start = Clock::now();
    work();
    least = std::min(least, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return least;
}

/// A tile of windows three positions wide that lie next to each other, so that kernels may share positions.
double products_per_second(const KernelSet& kernels, int64_t blocks) {
  constexpr int64_t kWeightBytes = 16 << 10;  // half of a first-level cache
  constexpr int64_t kColumns = 3;
  constexpr int kCalls = 200;
  const int64_t steps = kWeightBytes / (blocks * kBlockBytes) / kColumns;  // of a position
  const int64_t position = steps * kStepInputs;
  const int64_t count = kernels.most_windows[blocks];
  AlignedArray<int8_t> weights(static_cast<size_t>(kColumns * steps * blocks * kBlockBytes));
  const std::vector<uint8_t> input(static_cast<size_t>((count + kColumns - 1) * position));
  const std::vector<int32_t> start(static_cast<size_t>(blocks * kBlockOutputs));
  const std::vector<float> multiplier(static_cast<size_t>(blocks * kBlockOutputs));
  std::vector<std::byte> result(static_cast<size_t>(count * blocks * kBlockOutputs));
  std::vector<const uint8_t*> inputs;
  std::vector<std::byte*> results;
  for (int64_t i = 0; i < count; ++i) {
    inputs.push_back(input.data() + i * position);
    results.push_back(result.data() + i * blocks * kBlockOutputs);
  }
  const int64_t run = 0;
  const WindowSums sums{.windows = inputs.data(),
                        .results = results.data(),
                        .result_offset = 0,
                        .count = count,
                        .runs = &run,
                        .run_count = 1,
                        .run_steps = kColumns * steps,
                        .weights = weights.data(),
                        .blocks = blocks,
                        .outputs = blocks * kBlockOutputs,
                        .start = start.data(),
                        .finish = {.multiplier = multiplier.data(), .most = 1, .cuts_bytes = true},
                        .column_bytes = blocks == 1 ? position : 0};
  const double seconds = least_seconds(20, [&] {
    for (int i = 0; i < kCalls; ++i) kernels.add_windows(sums);
  });
  return static_cast<double>(kCalls * count * sums.outputs * sums.run_steps * kStepInputs) / seconds;
}

double products_per_second() {
  const KernelSet& kernels = kernel_set();
  double most = 0;
  for (int64_t blocks = 1; blocks <= kernels.most_blocks; ++blocks)
    most = std::max(most, products_per_second(kernels, blocks));
  return most;
}

double float_products_per_second() {
  constexpr int64_t kWindows = 84;  // tiles of 14, 3 or 12
  constexpr int64_t kBlocks = 2;
  constexpr int64_t kOutputs = kBlocks * kSumOutputs;
  constexpr int64_t kChannels = 256;  // 32 KiB of weights
  constexpr int kCalls = 50;
  const std::vector<float> input(kChannels);
  const std::vector<float> weights(static_cast<size_t>(kChannels * kOutputs));
  const std::vector<float> start(static_cast<size_t>(kOutputs));
  std::vector<float> result(static_cast<size_t>(kOutputs));
  const std::vector<const float*> inputs(kWindows, input.data());
  const std::vector<float*> results(kWindows, result.data());
  const std::vector<SumTap> taps = {{0, 0}};
  const ChannelsLastSums sums{.windows = inputs.data(),
                              .results = results.data(),
                              .count = kWindows,
                              .taps = taps,
                              .channels = kChannels,
                              .weights = weights.data(),
                              .packed_taps = 1,
                              .blocks = kBlocks,
                              .outputs = kOutputs,
                              .start = start.data(),
                              .end = {}};
  const double seconds = least_seconds(20, [&] {
    for (int i = 0; i < kCalls; ++i) add_channels_last(sums);
  });
  return static_cast<double>(kCalls * kWindows * kOutputs * kChannels) / seconds;
}

double bytes_per_second() {
  constexpr size_t kWords = size_t{8} << 20;
  const std::vector<uint64_t> memory(kWords, 1);
  uint64_t sum = 0;
  const double seconds =
      least_seconds(5, [&] { sum += std::accumulate(memory.begin(), memory.end(), uint64_t{0}); });
  return sum == 0 ? 0 : static_cast<double>(kWords * sizeof(uint64_t)) / seconds;
}

}  // namespace

MachineLimits measured_limits() {
  return {products_per_second(), float_products_per_second(), bytes_per_second()};
}

}  // namespace detent

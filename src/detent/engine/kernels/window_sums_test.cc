#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "detent/engine/engine_target_for_test.h"
#include "detent/engine/kernels/kernel_set.h"
#include "detent/formats/kernel_environment.h"

// Sums over windows that lie anywhere, against a plain loop, on every instruction set.

namespace detent {
namespace {

class WindowSumsTest : public EngineTargetTest {};

/// A call of add_windows with all that it points to.
struct DrawnSums {
  std::vector<uint8_t> inputs;
  std::vector<const uint8_t*> windows;
  std::vector<int64_t> runs;
  std::vector<int8_t> weights;
  std::vector<int32_t> start, before;
  std::vector<float> multiplier;
  WindowSums sums = {};
};

int64_t drawn(std::mt19937& random, int64_t least, int64_t most) {
  return std::uniform_int_distribution<int64_t>(least, most)(random);
}

/// Windows in rows of equal distances, as those of a convolution, or anywhere.
void draw_windows(std::mt19937& random, DrawnSums& to) {
  const int64_t distance = 4 * drawn(random, 0, 40);
  const int64_t row = drawn(random, 1, 60);
  const bool anywhere = drawn(random, 0, 3) == 0;
  const int64_t window_bytes = to.runs.back() + to.sums.run_steps * kStepInputs;
  const int64_t last = std::ssize(to.inputs) - window_bytes - 64;  // kernels may read up to there
  for (int64_t i = 0; i < to.sums.count; ++i) {
    const int64_t at = anywhere ? drawn(random, 0, last) : i % row * distance + i / row * 4099;
    to.windows.push_back(to.inputs.data() + at % last);
  }
}

DrawnSums draw_sums(std::mt19937& random, int64_t most_blocks) {
  DrawnSums drawn_sums;
  WindowSums& w = drawn_sums.sums;
  w.count = drawn(random, 1, drawn(random, 0, 1) == 0 ? 20 : 120);
  w.run_count = drawn(random, 1, 9);
  w.run_steps = drawn(random, 0, 2) == 0 ? 16 * drawn(random, 1, 3) : drawn(random, 1, 40);
  w.blocks = drawn(random, 1, most_blocks);
  w.outputs = drawn(random, (w.blocks - 1) * kBlockOutputs + 1, w.blocks * kBlockOutputs);
  drawn_sums.inputs.resize(1 << 15);
  for (uint8_t& byte : drawn_sums.inputs) byte = static_cast<uint8_t>(random());
  for (int64_t run = 0, at = 0; run < w.run_count; ++run, at += drawn(random, 0, 900))
    drawn_sums.runs.push_back(at);
  draw_windows(random, drawn_sums);
  drawn_sums.weights.resize(static_cast<size_t>(w.run_count * w.run_steps * w.blocks * kBlockBytes));
  for (int8_t& weight : drawn_sums.weights) weight = static_cast<int8_t>(random());
  const auto outputs = static_cast<size_t>(w.blocks * kBlockOutputs);
  for (size_t o = 0; o < outputs; ++o) {
    drawn_sums.start.push_back(static_cast<int32_t>(random() >> 8));
    drawn_sums.multiplier.push_back(static_cast<float>(drawn(random, 1, 1000)) * 0x1p-26F);
  }
  if (drawn(random, 0, 2) == 0) {
    drawn_sums.before.resize(outputs * static_cast<size_t>(w.count));
    for (int32_t& sum : drawn_sums.before) sum = static_cast<int32_t>(random() >> 8);
    w.sums_before = drawn_sums.before.data();
  }
  w.windows = drawn_sums.windows.data();
  w.runs = drawn_sums.runs.data();
  w.weights = drawn_sums.weights.data();
  w.start = drawn_sums.start.data();
  w.finish = {.multiplier = drawn_sums.multiplier.data(), .least = -90, .most = 120, .zero = 100};
  return drawn_sums;
}

int32_t plain_sum(const WindowSums& w, int64_t window, int64_t output) {
  const int64_t block = output / kBlockOutputs;
  const int64_t lane = output % kBlockOutputs;
  uint32_t sum = static_cast<uint32_t>(
      w.sums_before == nullptr ? w.start[output] : w.sums_before[window * w.blocks * kBlockOutputs + output]);
  for (int64_t run = 0; run < w.run_count; ++run) {
    for (int64_t i = 0; i < w.run_steps * kStepInputs; ++i) {
      const int64_t step = run * w.run_steps + i / kStepInputs;
      const int8_t weight =
          w.weights[(step * w.blocks + block) * kBlockBytes + lane * kStepInputs + i % kStepInputs];
      sum += static_cast<uint32_t>(w.windows[window][w.runs[run] + i] * weight);
    }
  }
  return static_cast<int32_t>(sum);
}

uint8_t plain_code(const SumFinish& f, int64_t output, int32_t sum) {
  const float steps = static_cast<float>(sum) * f.multiplier[output];
  return static_cast<uint8_t>(static_cast<int32_t>(std::nearbyint(std::clamp(steps, f.least, f.most))) +
                              f.zero);
}

/// [window][output of the blocks]
std::vector<int32_t> plain_sums(const WindowSums& w) {
  const int64_t outputs = w.blocks * kBlockOutputs;
  std::vector<int32_t> sums;
  for (int64_t i = 0; i < w.count * outputs; ++i) sums.push_back(plain_sum(w, i / outputs, i % outputs));
  return sums;
}

/// Sums, codes and values are those of the plain loop, and nothing beside them is written.
void expect_plain_results(WindowSums w, const std::vector<int32_t>& expected) {
  const auto outputs = static_cast<size_t>(w.blocks * kBlockOutputs);
  std::vector<int32_t> sums(outputs * static_cast<size_t>(w.count));
  std::vector<std::byte*> results(static_cast<size_t>(w.count));
  w.results = results.data();
  w.sums_after = sums.data();
  kernel_set().add_windows(w);
  w.sums_after = nullptr;
  constexpr int64_t kRow = int64_t{16} * kBlockOutputs + 8;  // bytes, of which some must stay
  constexpr std::byte kUntouched{0xA5};
  std::vector<std::byte> stored[3];
  for (int kind = 0; kind < 3; ++kind) {
    stored[kind].assign(static_cast<size_t>(w.count * kRow), kUntouched);
    for (int64_t i = 0; i < w.count; ++i) results[static_cast<size_t>(i)] = stored[kind].data() + i * kRow;
    w.finish.gives_values = kind == 2;
    w.finish.cuts_bytes = kind == 1;
    kernel_set().add_windows(w);
  }
  for (int64_t i = 0; i < w.count; ++i) {
    for (int64_t o = 0; o < w.outputs; ++o) {
      const int32_t sum = expected[static_cast<size_t>(i) * outputs + static_cast<size_t>(o)];
      ASSERT_EQ(sums[static_cast<size_t>(i) * outputs + static_cast<size_t>(o)], sum) << i << ", " << o;
      const auto code = static_cast<std::byte>(plain_code(w.finish, o, sum));
      ASSERT_EQ(stored[0][static_cast<size_t>(i * kRow + o)], code) << i << ", " << o;
      ASSERT_EQ(stored[1][static_cast<size_t>(i * kRow + o)], code) << i << ", " << o;
      float value = 0;
      std::memcpy(&value, stored[2].data() + i * kRow + 4 * o, sizeof(value));
      ASSERT_EQ(value, static_cast<float>(sum) * w.finish.multiplier[o]) << i << ", " << o;
    }
    ASSERT_EQ(stored[0][static_cast<size_t>(i * kRow + w.outputs)], kUntouched);
    ASSERT_EQ(stored[1][static_cast<size_t>(i * kRow + w.outputs)], kUntouched);
    ASSERT_EQ(stored[2][static_cast<size_t>(i * kRow + 4 * w.outputs)], kUntouched);
  }
}

TEST_F(WindowSumsTest, EqualAPlainLoopWhereverWindowsLie) {
  std::mt19937 random(11);
  constexpr int64_t kFewestBlocks = 1;  // that every instruction set takes
  constexpr int64_t kMostBlocks = 4;
  for (int i = 0; i < 60; ++i) {
    SCOPED_TRACE(i);
    const DrawnSums drawn_sums = draw_sums(random, i % 3 == 0 ? kFewestBlocks : kMostBlocks);
    const std::vector<int32_t> expected = plain_sums(drawn_sums.sums);
    for (const std::string& target : engine_targets()) {
      SCOPED_TRACE(target);
      set_engine_target(target);
      if (drawn_sums.sums.blocks > kernel_set().most_blocks) continue;
      expect_plain_results(drawn_sums.sums, expected);
      if (HasFatalFailure()) return;
    }
  }
}

/// Not the ones that were chosen before.
TEST_F(WindowSumsTest, KernelsFollowTheTargetThatIsSet) {
  const std::vector<std::string> targets = simd_targets();
  if (std::ranges::count(targets, "AVX2") == 0) GTEST_SKIP() << "no AVX2";
  for (int i = 0; i < 3; ++i) {
    set_simd_target("AVX2", "test");
    for (int again = 0; again < 2; ++again) EXPECT_STREQ(kernel_set().name, "AVX2");
    set_simd_target(targets.front(), "test");
    EXPECT_EQ(kernel_set().name == std::string("AVX2"), targets.front() == "AVX2");
  }
}

}  // namespace
}  // namespace detent

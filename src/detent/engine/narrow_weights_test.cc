#include "detent/engine/narrow_weights.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "detent/engine/packed_sums.h"

namespace detent {
namespace {

struct Case {
  WeightPacking packing;
  int32_t least, most;
};

class NarrowWeights : public testing::TestWithParam<Case> {
 protected:
  void TearDown() override { set_engine_target(""); }

  std::vector<int8_t> drawn_weights(int64_t count) {
    std::uniform_int_distribution<int> weight(GetParam().least, GetParam().most);
    std::vector<int8_t> weights(static_cast<size_t>(count));
    for (int8_t& w : weights) w = static_cast<int8_t>(weight(generator_));
    return weights;
  }

  PackingShape shape_ = packing_shape(GetParam().packing);
  std::mt19937 generator_{7};
};

TEST_P(NarrowWeights, AreTheSameWhenWidened) {
  constexpr int64_t kCount = 4096;
  const std::vector<int8_t> weights = drawn_weights(shape_.steps * kCount);
  std::vector<int8_t> packed(static_cast<size_t>(shape_.vectors * kCount));
  narrow(GetParam().packing, weights.data(), kCount, packed.data());
  for (int step = 0; step < shape_.steps; ++step) {
    for (int64_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(widened(GetParam().packing, packed.data(), kCount, step, i),
                weights[static_cast<size_t>(step * kCount + i)]);
    }
  }
}

/// A block of outputs over windows of some steps.
TEST_P(NarrowWeights, AreMultipliedOnEveryInstructionSet) {
  constexpr int64_t kWindows = 4;
  constexpr int64_t kGroups = 3;
  const int64_t steps = kGroups * shape_.steps;
  const std::vector<int8_t> weights = drawn_weights(steps * kBlockBytes);
  AlignedArray<int8_t> packed(static_cast<size_t>(kGroups * shape_.vectors * kBlockBytes));
  for (int64_t g = 0; g < kGroups; ++g) {
    narrow(GetParam().packing, weights.data() + g * shape_.steps * kBlockBytes, kBlockBytes,
           packed.data() + g * shape_.vectors * kBlockBytes);
  }
  std::vector<uint8_t> inputs(static_cast<size_t>(kWindows * steps * kStepInputs));
  for (uint8_t& x : inputs) x = static_cast<uint8_t>(generator_());
  const std::vector<int32_t> start(kBlockOutputs, -1000);
  const std::vector<float> scale(4 * kBlockOutputs, 1.0F);
  std::vector<float> sums(kWindows * kBlockOutputs);
  std::vector<const uint8_t*> windows;
  std::vector<std::byte*> results;
  for (int64_t i = 0; i < kWindows; ++i) {
    windows.push_back(inputs.data() + i * steps * kStepInputs);
    results.push_back(reinterpret_cast<std::byte*>(sums.data() + i * kBlockOutputs));
  }
  const int64_t run = 0;
  for (const std::string& target : engine_targets()) {
    set_engine_target(target);
    kernel_set().add_windows({.windows = windows.data(),
                              .results = results.data(),
                              .result_offset = 0,
                              .count = kWindows,
                              .runs = &run,
                              .run_count = 1,
                              .run_steps = steps,
                              .weights = packed.data(),
                              .blocks = 1,
                              .outputs = kBlockOutputs,
                              .start = start.data(),
                              .finish = {.multiplier = scale.data(), .gives_values = true},
                              .packing = GetParam().packing});
    for (int64_t i = 0; i < kWindows; ++i) {
      for (int64_t o = 0; o < kBlockOutputs; ++o) {
        int32_t wanted = -1000;
        for (int64_t k = 0; k < steps * kStepInputs; ++k) {
          const int64_t at = k / kStepInputs * kBlockBytes + o * kStepInputs + k % kStepInputs;
          wanted += windows[static_cast<size_t>(i)][k] * weights[static_cast<size_t>(at)];
        }
        ASSERT_EQ(sums[static_cast<size_t>(i * kBlockOutputs + o)], static_cast<float>(wanted)) << target;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Packings, NarrowWeights,
                         testing::Values(Case{WeightPacking::kFour, -8, 7},
                                         Case{WeightPacking::kThree, -4, 3}, Case{WeightPacking::kTwo, -2, 1},
                                         Case{WeightPacking::kTernary, -1, 1}));

TEST(FastestPacking, FollowsTheRangeAndTheSize) {
  EXPECT_EQ(fastest_packing(-1, 1, 64, 64), WeightPacking::kTwo);
  EXPECT_EQ(fastest_packing(-1, 1, 1 << 14, 1 << 14), WeightPacking::kTernary);
  EXPECT_EQ(fastest_packing(-2, 1, 1 << 14, 1 << 14), WeightPacking::kTwo);
  EXPECT_EQ(fastest_packing(-2, 2, 64, 64), WeightPacking::kThree);
  EXPECT_EQ(fastest_packing(-8, 7, 64, 64), WeightPacking::kFour);
  EXPECT_EQ(fastest_packing(-9, 7, 64, 64), WeightPacking::kBytes);
  EXPECT_EQ(fastest_packing(-1, 1, 4, 70000), WeightPacking::kBytes);  // sums of more than 32 bits
}

}  // namespace
}  // namespace detent

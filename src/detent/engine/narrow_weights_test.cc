#include "detent/engine/packed_sums.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

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

/// Windows of two runs, which lie apart, times blocks of outputs.
struct Problem {
  static constexpr int64_t kRuns = 2;
  static constexpr int64_t kWindowBytes = 1000;
  int64_t windows;
  int64_t blocks;
  int64_t run_steps;
  std::vector<uint8_t> inputs;
  std::vector<int8_t> weights;  // [run][step][block][16][4]

  int64_t outputs() const { return blocks * kBlockOutputs; }
  static int64_t run(int64_t r) { return r * 500; }
  int32_t sum(int64_t window, int64_t output) const {
    int32_t sum = 0;
    const int8_t* w = weights.data() + output * kStepInputs;
    for (int64_t r = 0; r < kRuns; ++r) {
      const uint8_t* x = inputs.data() + window * kWindowBytes + run(r);
      for (int64_t step = 0; step < run_steps; ++step, w += blocks * kBlockBytes, x += kStepInputs) {
        for (int64_t k = 0; k < kStepInputs; ++k) sum += x[k] * w[k];
      }
    }
    return sum;
  }
};

std::vector<int8_t> packed_weights(WeightPacking packing, const Problem& problem) {
  const PackingShape shape = packing_shape(packing);
  const int64_t step = problem.blocks * kBlockBytes;
  std::vector<int8_t> packed(problem.weights.size() / static_cast<size_t>(shape.steps) *
                             static_cast<size_t>(shape.vectors));
  for (int64_t s = 0; s < Problem::kRuns * problem.run_steps; s += shape.steps)
    narrow(packing, problem.weights.data() + s * step, step,
           packed.data() + s / shape.steps * shape.vectors * step);
  return packed;
}

std::vector<float> sums_of_kernel(WeightPacking packing, const Problem& problem) {
  constexpr int32_t kStart = -1000;
  const std::vector<int8_t> packed = packed_weights(packing, problem);
  const std::vector<int32_t> start(static_cast<size_t>(problem.outputs()), kStart);
  const std::vector<float> scale(static_cast<size_t>(problem.outputs()), 1.0F);
  const int64_t runs[] = {Problem::run(0), Problem::run(1)};
  std::vector<float> sums(static_cast<size_t>(problem.windows * problem.outputs()));
  std::vector<const uint8_t*> windows;
  std::vector<std::byte*> results;
  for (int64_t i = 0; i < problem.windows; ++i) {
    windows.push_back(problem.inputs.data() + i * Problem::kWindowBytes);
    results.push_back(reinterpret_cast<std::byte*>(sums.data() + i * problem.outputs()));
  }
  kernel_set().add_windows({.windows = windows.data(),
                            .results = results.data(),
                            .result_offset = 0,
                            .count = problem.windows,
                            .runs = runs,
                            .run_count = Problem::kRuns,
                            .run_steps = problem.run_steps,
                            .weights = packed.data(),
                            .blocks = problem.blocks,
                            .outputs = problem.outputs(),
                            .start = start.data(),
                            .finish = {.multiplier = scale.data(), .gives_values = true},
                            .packing = packing});
  for (float& sum : sums) sum -= static_cast<float>(kStart);
  return sums;
}

TEST_P(NarrowWeights, AreMultipliedOnEveryInstructionSet) {
  for (const std::string& target : engine_targets()) {
    set_engine_target(target);
    for (int64_t windows = 1; windows <= 5; ++windows) {
      for (int64_t blocks = 1; blocks <= kernel_set().most_blocks; ++blocks) {
        // Up to more than four vectors of inputs; also only the largest codes, whose sums are the largest.
        for (const bool is_largest : {false, true}) {
          Problem problem{windows, blocks, shape_.steps * (is_largest ? 80 / shape_.steps : windows), {}, {}};
          problem.inputs.assign(static_cast<size_t>(windows * Problem::kWindowBytes), 255);
          problem.weights.assign(
              static_cast<size_t>(Problem::kRuns * problem.run_steps * blocks * kBlockBytes),
              static_cast<int8_t>(GetParam().most));
          if (!is_largest) {
            for (uint8_t& x : problem.inputs) x = static_cast<uint8_t>(generator_());
            problem.weights = drawn_weights(std::ssize(problem.weights));
          }
          const std::vector<float> sums = sums_of_kernel(GetParam().packing, problem);
          for (int64_t i = 0; i < std::ssize(sums); ++i) {
            ASSERT_EQ(sums[static_cast<size_t>(i)],
                      static_cast<float>(problem.sum(i / problem.outputs(), i % problem.outputs())))
                << target << ", " << windows << " windows, " << blocks << " blocks, sum " << i;
          }
        }
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

#include "detent/engine/fast_executor.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace detent {
namespace {

TEST(StepProfile, NamesSlowStepsThatTakeMuchOfARun) {
  std::vector<StepProfile> steps = {
      {.nodes = "conv", .kernel = "convolution float", .seconds = 8e-3},
      {.nodes = "cumsum", .kernel = "float", .why = "computes in float", .seconds = 0.5e-3},
      {.nodes = "sort", .kernel = "reference", .why = "no kernel", .seconds = 1.5e-3}};
  EXPECT_EQ(slow_steps_text(steps),
            "20 % of a run is spent in 2 nodes without a fast kernel: sort (no kernel), cumsum (computes in "
            "float)");
  steps[0].seconds = 30e-3;
  EXPECT_EQ(slow_steps_text(steps), "") << "little of the run";
  for (StepProfile& step : steps) step.seconds /= 1000;
  steps[0].seconds = 0;
  EXPECT_EQ(slow_steps_text(steps), "") << "too short to say";
}

}  // namespace
}  // namespace detent

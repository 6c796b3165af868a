#pragma once

#include <gtest/gtest.h>

#include <string>

#include "detent/formats/kernel_environment.h"

namespace detent {

/// A test that runs on every instruction set of the processor.
class EveryTargetTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    set_simd_target(GetParam(), "test");
    ASSERT_EQ(active_simd_target(), GetParam());
  }
  void TearDown() override { set_simd_target(simd_targets().front(), "test"); }
};

#define DETENT_ON_EVERY_TARGET(Suite)                                         \
  INSTANTIATE_TEST_SUITE_P(Highway, Suite, testing::ValuesIn(simd_targets()), \
                           [](const auto& instance) { return instance.param; })

}  // namespace detent

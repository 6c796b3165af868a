#include "detent/core/convert.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <bit>
#include <numeric>
#include <string>
#include <vector>

namespace detent {
namespace {

class HalfFloats : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

using Widen = void (*)(const uint16_t*, float*, size_t);
using Shorten = void (*)(const float*, uint16_t*, size_t);

void expect_floats(const std::vector<uint16_t>& halves, Widen all, float (*one)(uint16_t)) {
  std::vector<float> floats(halves.size());
  all(halves.data(), floats.data(), halves.size());
  for (size_t i = 0; i < halves.size(); ++i) {
    const auto wanted = std::bit_cast<uint32_t>(one(halves[i]));
    ASSERT_EQ(std::bit_cast<uint32_t>(floats[i]), wanted) << halves[i];
  }
}

void expect_halves(const std::vector<float>& floats, Shorten all, uint16_t (*one)(float)) {
  std::vector<uint16_t> halves(floats.size());
  all(floats.data(), halves.data(), floats.size());
  for (size_t i = 0; i < floats.size(); ++i) ASSERT_EQ(halves[i], one(floats[i])) << floats[i];
}

TEST_P(HalfFloats, AllHalvesWidenAsOneByOne) {
  std::vector<uint16_t> halves(1 << 16);
  std::iota(halves.begin(), halves.end(), uint16_t{0});
  halves.insert(halves.end(), {1, 0x7C01, 0xFE00});  // no whole vector
  expect_floats(halves, floats_of_float16, float16_to_float);
  expect_floats(halves, floats_of_bfloat16, bfloat16_to_float);
}

/// All signs, exponents and upper bits of the mantissa, with lower ones around the middle of two halves.
TEST_P(HalfFloats, FloatsShortenAsOneByOne) {
  std::vector<float> floats;
  for (const uint32_t low :
       {0U, 1U, 0x0FFFU, 0x1000U, 0x1001U, 0x1FFFU, 0x7FFFU, 0x8000U, 0x8001U, 0xFFFFU}) {
    for (uint32_t high = 0; high < 1U << 16; ++high) floats.push_back(std::bit_cast<float>(high << 16 | low));
  }
  uint32_t state = 1;
  for (int i = 0; i < 1'000'003; ++i) {
    state = state * 1664525 + 1013904223;
    floats.push_back(std::bit_cast<float>(state));
  }
  expect_halves(floats, float16_of_floats, float_to_float16);
  expect_halves(floats, bfloat16_of_floats, float_to_bfloat16);
}

INSTANTIATE_TEST_SUITE_P(Targets, HalfFloats, testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& instance) { return std::string(hwy::TargetName(instance.param)); });

}  // namespace
}  // namespace detent

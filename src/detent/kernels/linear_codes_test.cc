#include "detent/kernels/linear_codes.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <bit>
#include <limits>
#include <string>
#include <vector>

namespace detent {
namespace {

class LinearCodes : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

/// Middles of codes, what lies beside them, and bits of all kinds.
std::vector<float> values_to_round(float scale) {
  std::vector<float> values = {0.0F, -0.0F, HUGE_VALF, -HUGE_VALF, NAN, 1e38F, -1e38F};
  for (int i = -600; i <= 600; ++i) {
    const float middle = (static_cast<float>(i) + 0.5F) * scale;
    for (const float x : {middle, std::nextafterf(middle, 0), std::nextafterf(middle, HUGE_VALF)})
      values.push_back(x);
  }
  uint32_t state = 7;
  for (int i = 0; i < 20'000; ++i) {
    state = state * 1664525 + 1013904223;
    values.push_back(std::bit_cast<float>(state));
  }
  return values;
}

template <class Code>
void expect_one_by_one() {
  std::vector<Code> all;
  constexpr int kLowest = std::is_signed_v<Code> ? -128 : 0;
  for (int i = kLowest; i < kLowest + 256; ++i) all.push_back(static_cast<Code>(i));
  all.push_back(3);  // no whole vector
  const auto count_of = [](const auto& elements) { return std::ssize(elements); };
  for (const float scale : {0.5F, 0.0117F, 1e-39F, 3e30F, 0.0F}) {
    for (const Code zero : {std::numeric_limits<Code>::min(), Code{0}, Code{5}}) {
      const std::vector<float> x = values_to_round(scale);
      std::vector<Code> codes(x.size());
      codes_of(x.data(), scale, static_cast<float>(zero), codes.data(), count_of(x));
      for (size_t i = 0; i < x.size(); ++i)
        ASSERT_EQ(codes[i], code_of<Code>(x[i], scale, static_cast<float>(zero))) << x[i] << " / " << scale;
      std::vector<float> values(all.size());
      values_of(all.data(), scale, zero, values.data(), count_of(all));
      for (size_t i = 0; i < all.size(); ++i) {
        const float wanted = value_of(all[i], scale, zero);
        ASSERT_EQ(std::bit_cast<uint32_t>(values[i]), std::bit_cast<uint32_t>(wanted)) << i;
      }
    }
  }
}

TEST_P(LinearCodes, AsOneByOne) {
  expect_one_by_one<uint8_t>();
  expect_one_by_one<int8_t>();
  expect_one_by_one<int16_t>();
}

INSTANTIATE_TEST_SUITE_P(Targets, LinearCodes, testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& instance) { return std::string(hwy::TargetName(instance.param)); });

}  // namespace
}  // namespace detent

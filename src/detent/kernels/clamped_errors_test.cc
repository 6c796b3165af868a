#include "detent/kernels/clamped_errors.h"

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <vector>

namespace detent {
namespace {

class ClampedErrorsOnTargets : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

/// Some beyond the bounds, on them, zeros of both signs, and infinite.
std::vector<float> values_about(float bound, size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> any(-2 * bound, 2 * bound);
  const std::vector<float> special = {0.0F, -0.0F, bound, -bound, INFINITY};
  std::vector<float> values(count);
  for (float& value : values) value = random() % 8 == 0 ? special[random() % special.size()] : any(random);
  return values;
}

TEST_P(ClampedErrorsOnTargets, AreTheSameBits) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  const std::vector<std::array<double, 2>> bounds = {{-kInfinite, kInfinite}, {0, kInfinite}, {-1.5, 0.75}};
  for (const int64_t channels : {1, 2, 3, 5, 8, 9, 15, 16}) {
    for (const int64_t stride : {channels, channels + 3}) {
      const auto [positions, low, high] = std::tuple(int64_t{77}, bounds[static_cast<size_t>(stride) % 3][0],
                                                     bounds[static_cast<size_t>(stride) % 3][1]);
      // Nothing may be read beyond the last channel.
      const auto size = static_cast<size_t>((positions - 1) * stride + channels);
      const std::vector<float> wanted = values_about(1.5F, size, 1);
      const std::vector<float> got = values_about(1.5F, size, 2);
      const ClampedPairs pairs{.wanted = wanted.data(),
                               .got = got.data(),
                               .positions = positions,
                               .stride = stride,
                               .channels = channels,
                               .low = low,
                               .high = high};
      ClampedErrors::Lanes shifts{};
      for (size_t c = 0; c < shifts.size(); ++c) shifts[c] = 0.25 * static_cast<double>(c) - 1;
      const ClampedErrors fast = clamped_errors(pairs, shifts);
      const ClampedErrors slow = plain::clamped_errors(pairs, shifts);
      const auto same = [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); };
      for (size_t c = 0; c < static_cast<size_t>(channels); ++c) {
        EXPECT_TRUE(same(fast.squares[c], slow.squares[c])) << channels << " " << c;
        EXPECT_TRUE(same(fast.differences[c], slow.differences[c])) << channels << " " << c;
        EXPECT_EQ(fast.counts[c], slow.counts[c]) << channels << " " << c;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, ClampedErrorsOnTargets,
                         testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& instance) { return std::string(hwy::TargetName(instance.param)); });

}  // namespace
}  // namespace detent

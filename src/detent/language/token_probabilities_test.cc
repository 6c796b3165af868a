#include "detent/language/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include "detent/formats/every_target_test.h"

namespace detent {
namespace {

std::vector<float> random_logits(size_t count, unsigned seed, float spread) {
  std::mt19937 random(seed);
  std::vector<float> logits(count);
  for (float& logit : logits) {
    const auto draw = static_cast<float>(random()) * 0x1p-32F;
    logit = (draw - 0.5F) * spread;
  }
  return logits;
}

/// In long double, term by term.
long double exact_log_sum(const std::vector<float>& logits) {
  long double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<long double>(x));
  return std::log(sum);
}

class TokenProbabilities : public EveryTargetTest {};
DETENT_ON_EVERY_TARGET(TokenProbabilities);

TEST_P(TokenProbabilities, AreThoseOfTheDefinition) {
  for (const size_t count : {1U, 2U, 15U, 16U, 17U, 1000U, 49152U}) {
    const std::vector<float> logits = random_logits(count, 1, 40);
    const std::vector<float> others = random_logits(count, 2, 40);
    const double sum = log_sum_exp(logits);
    const double other_sum = log_sum_exp(others);
    const long double exact_sum = exact_log_sum(logits);
    const auto exact = static_cast<double>(exact_sum);
    EXPECT_NEAR(sum, exact, 1e-14 * std::max(1.0, std::abs(exact))) << count;
    const long double exact_other = exact_log_sum(others);
    long double expected = 0;
    for (size_t i = 0; i < count; ++i) {
      const long double log_p = logits[i] - exact_sum;
      expected += std::exp(log_p) * (log_p - (others[i] - exact_other));
    }
    EXPECT_NEAR(divergence(logits, sum, others, other_sum), static_cast<double>(expected), 1e-12) << count;
    EXPECT_EQ(divergence(logits, sum, logits, sum), 0) << count;
  }
}

/// Sets of instructions give the same bits.
TEST(TokenProbabilities, DoNotDependOnTheProcessor) {
  const std::vector<float> logits = random_logits(4099, 3, 100);
  const std::vector<float> others = random_logits(4099, 4, 100);
  std::map<double, int> sums;
  std::map<double, int> divergences;
  for (const std::string& target : simd_targets()) {
    set_simd_target(target, "test");
    ++sums[log_sum_exp(logits)];
    ++divergences[divergence(logits, log_sum_exp(logits), others, log_sum_exp(others))];
  }
  set_simd_target(simd_targets().front(), "test");
  EXPECT_EQ(sums.size(), 1U);
  EXPECT_EQ(divergences.size(), 1U);
}

TEST_P(TokenProbabilities, BearWhatIsLargeAndRefuseNan) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(log_sum_exp(std::vector<float>{1e30F, 0, -infinity}), static_cast<double>(1e30F));
  EXPECT_EQ(log_sum_exp(std::vector<float>{-3e38F}), static_cast<double>(-3e38F));
  EXPECT_TRUE(std::isnan(log_sum_exp(std::vector<float>{1, NAN, 2})));
  EXPECT_TRUE(std::isnan(log_sum_exp(std::vector<float>{1, infinity})));
}

TEST(TokenProbability, OfTheFirstOfTheLargest) {
  EXPECT_EQ(most_likely(std::vector<float>{1, 3, 3, 2}), 1);
  for (int step = 0; step < 3808; ++step) {
    const double x = -700 + 0.37 * step;
    EXPECT_NEAR(exact_exp(x) / std::exp(x), 1, 4e-16) << x;
  }
  EXPECT_EQ(exact_exp(0), 1);
  EXPECT_EQ(exact_exp(1000), HUGE_VAL);
}

}  // namespace
}  // namespace detent

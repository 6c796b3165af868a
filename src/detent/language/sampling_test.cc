#include "detent/language/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "detent/core/error.h"

namespace detent {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr int64_t kDraws = 4000;

std::map<int64_t, double> frequencies(const std::vector<float>& logits, const SamplingOptions& options) {
  std::map<int64_t, double> shares;
  for (int64_t i = 0; i < kDraws; ++i) shares[draw_token(logits, {}, i, options)] += 1.0 / kDraws;
  return shares;
}

std::set<int64_t> drawn(const std::vector<float>& logits, const SamplingOptions& options) {
  std::set<int64_t> tokens;
  for (const auto& [token, share] : frequencies(logits, options)) tokens.insert(token);
  return tokens;
}

SamplingOptions at_temperature(double temperature) {
  SamplingOptions options;
  options.temperature = temperature;
  options.seed = 3;
  return options;
}

TEST(Sampling, TakesTheFirstOfTheMostLikelyTokensWithoutTemperature) {
  EXPECT_EQ(draw_token(std::vector<float>{1, 3, 3, -2}, {}, 0, {}), 1);
  EXPECT_EQ(draw_token(std::vector<float>{-kInfinity, -5}, {}, 0, {}), 1);
}

TEST(Sampling, DrawsAsOftenAsTheDistributionSays) {
  // exp(x / 0.5) of log 1, 2, 3: 1, 4, 9 of 14.
  const std::vector<float> logits = {0, std::log(2.0F), std::log(3.0F), -kInfinity};
  const auto shares = frequencies(logits, at_temperature(0.5));
  ASSERT_EQ(shares.size(), 3U);
  constexpr double kFourDeviations = 0.032;
  EXPECT_NEAR(shares.at(0), 1.0 / 14, kFourDeviations);
  EXPECT_NEAR(shares.at(1), 4.0 / 14, kFourDeviations);
  EXPECT_NEAR(shares.at(2), 9.0 / 14, kFourDeviations);
}

TEST(Sampling, DrawsTheSameWithTheSameSeed) {
  const std::vector<float> logits(100, 0);
  SamplingOptions options = at_temperature(1);
  std::vector<int64_t> first;
  std::vector<int64_t> again;
  std::vector<int64_t> other;
  for (int64_t i = 0; i < 20; ++i) first.push_back(draw_token(logits, {}, i, options));
  for (int64_t i = 0; i < 20; ++i) again.push_back(draw_token(logits, {}, i, options));
  options.seed = 4;
  for (int64_t i = 0; i < 20; ++i) other.push_back(draw_token(logits, {}, i, options));
  EXPECT_EQ(first, again);
  EXPECT_NE(first, other);
}

TEST(Sampling, RestrictsToTheMostLikelyTokens) {
  // Shares 0.5, 0.25, 0.125, 0.125.
  const float half = std::log(2.0F);
  const std::vector<float> logits = {0, 2 * half, half, 0};
  SamplingOptions options = at_temperature(1);
  options.top_k = 2;
  EXPECT_EQ(drawn(logits, options), (std::set<int64_t>{1, 2}));
  options.top_k = 3;  // of equal ones the first
  EXPECT_EQ(drawn(logits, options), (std::set<int64_t>{0, 1, 2}));
  options.top_k = 0;
  options.top_p = 0.6;
  EXPECT_EQ(drawn(logits, options), (std::set<int64_t>{1, 2}));
  options.top_p = 0.4;
  EXPECT_EQ(drawn(logits, options), (std::set<int64_t>{1}));
  options.top_p = 1;
  options.min_p = 0.4;
  EXPECT_EQ(drawn(logits, options), (std::set<int64_t>{1, 2}));
}

TEST(Sampling, PenalizesTokensThatWereThereOnce) {
  SamplingOptions options;
  options.repetition_penalty = 2;
  const std::vector<int64_t> sequence = {0, 0, 0};
  EXPECT_EQ(draw_token(std::vector<float>{3, 2, 1}, sequence, 3, options), 1);
  EXPECT_EQ(draw_token(std::vector<float>{3, 1.25F, 1}, sequence, 3, options), 0);  // 1.5, not 3 / 8
  EXPECT_EQ(draw_token(std::vector<float>{-1, -1.5F, -3}, sequence, 3, options), 1);
}

TEST(Sampling, RefusesWhatCannotBeDrawn) {
  EXPECT_THROW(draw_token(std::vector<float>{1, NAN}, {}, 0, {}), Error);
  EXPECT_THROW(draw_token(std::vector<float>{-kInfinity}, {}, 0, {}), Error);
  for (auto change : std::vector<void (*)(SamplingOptions&)>{
           [](SamplingOptions& options) { options.temperature = -1; },
           [](SamplingOptions& options) { options.top_k = -1; },
           [](SamplingOptions& options) { options.top_p = 0; },
           [](SamplingOptions& options) { options.min_p = 1.5; },
           [](SamplingOptions& options) { options.repetition_penalty = 0; }}) {
    SamplingOptions options;
    change(options);
    EXPECT_THROW(check_sampling_options(options), UsageError);
  }
}

}  // namespace
}  // namespace detent

#include "detent/language/network/distance_products.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "detent/inference/integer_executor.h"
#include "detent/language/language_graph.h"
#include "detent/language/networks_for_test.h"

namespace detent {
namespace {

LanguageConfig small_deberta() {
  LanguageConfig config;
  config.family = "deberta-v2";
  config.layers = 2;
  config.hidden = 12;
  config.heads = config.kv_heads = 3;
  config.head_size = 4;
  config.intermediate = 20;
  config.vocabulary = 61;
  config.context = 64;
  config.norm = NormKind::kLayerNorm;
  config.norm_place = NormPlace::kAfter;
  config.is_causal = config.final_norm = false;
  config.embedding_norm = true;
  config.perceptron = PerceptronKind::kPlain;
  config.qkv_bias = config.output_bias = config.perceptron_bias = true;
  config.disentangled = {.span = 6, .most_distance = 9, .of_queries = true, .of_keys = true};
  config.convolution = {.width = 3};
  return config;
}

std::vector<float> hidden_states(const LanguageConfig& config, std::vector<int64_t> tokens, size_t padding) {
  std::vector<int64_t> mask(tokens.size(), 1);
  tokens.resize(tokens.size() + padding, 7);
  mask.resize(tokens.size(), 0);
  const Shape shape = {1, std::ssize(tokens)};
  WeightsForTest weights;
  const Tensor states =
      IntegerProgram(build_language_graph(config, weights))
          .run(std::vector<Tensor>{Tensor::from<int64_t>(shape, tokens), Tensor::from<int64_t>(shape, mask)})
          .front();
  const auto of_tokens = states.values<float>().first((tokens.size() - padding) * 12);
  return {of_tokens.begin(), of_tokens.end()};
}

/// Buckets of microsoft/deberta-v3-base, as transformers 5.24 makes them.
TEST(DistanceProducts, CountFarDistancesByLogarithm) {
  LanguageConfig config = small_deberta();
  config.disentangled.span = 256;
  config.disentangled.most_distance = 512;
  const std::vector<int64_t> rows = rows_by_distance(config);
  const auto middle = rows.size() / 2;
  const std::pair<int64_t, int64_t> expected[] = {{127, 383}, {128, 384}, {129, 385}, {130, 386}, {131, 387},
                                                  {150, 399}, {200, 425}, {300, 463}, {400, 489}, {500, 510},
                                                  {510, 511}, {511, 511}, {512, 511}, {0, 256},   {-129, 127},
                                                  {-400, 23}, {-511, 1},  {-512, 0}};
  for (const auto& [distance, row] : expected)
    EXPECT_EQ(rows.at(static_cast<size_t>(static_cast<int64_t>(middle) + distance)), row) << distance;
  EXPECT_EQ(rows.front(), 0);
  EXPECT_EQ(rows.back(), 511);
}

TEST(DistanceProducts, HaveARowForEachDistanceWithoutBuckets) {
  LanguageConfig config = small_deberta();
  config.disentangled = {.span = 3};
  EXPECT_EQ(rows_by_distance(config), (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 5}));
}

TEST(DistanceProducts, AndTheConvolutionSeeNoPadding) {
  const LanguageConfig config = small_deberta();
  const std::vector<int64_t> tokens = tokens_for_test(11, config.vocabulary);
  const std::vector<float> alone = hidden_states(config, tokens, 0);
  const std::vector<float> padded = hidden_states(config, tokens, 5);
  ASSERT_EQ(alone.size(), padded.size());
  for (size_t i = 0; i < alone.size(); ++i) EXPECT_NEAR(alone[i], padded[i], 2e-6) << i;
}

}  // namespace
}  // namespace detent

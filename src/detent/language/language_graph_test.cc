#include "detent/language/language_graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "detent/core/error.h"
#include "detent/inference/integer_executor.h"
#include "detent/language/plain_network_for_test.h"

namespace detent {
namespace {

constexpr int64_t kTokens = 23;

/// The largest difference beside the largest element, where the mask is 1.
double difference(const LanguageConfig& config, const std::vector<int64_t>& tokens,
                  const std::vector<int64_t>& mask) {
  WeightsForTest weights;
  const Graph graph = build_language_graph(config, weights);
  const auto count = std::ssize(tokens);
  std::vector<Tensor> inputs = {Tensor::from<int64_t>({1, count}, tokens),
                                Tensor::from<int64_t>({1, count}, mask)};
  if (config.token_types > 0) inputs.emplace_back(DType::kInt64, Shape{1, count});
  const Tensor got = IntegerProgram(graph).run(inputs).front();
  const PlainNetwork::Rows expected = PlainNetwork(config, weights).run(tokens, mask);
  EXPECT_EQ(got.shape(), Shape({1, count, std::ssize(expected[0])}));
  double most = 0;
  double largest = 0;
  for (size_t t = 0; t < expected.size(); ++t) {
    for (size_t i = 0; i < expected[t].size() && mask[t] != 0; ++i) {
      const auto value = static_cast<double>(got.values<float>()[t * expected[t].size() + i]);
      most = std::max(most, std::fabs(value - expected[t][i]));
      largest = std::max(largest, std::fabs(expected[t][i]));
    }
  }
  return most / largest;
}

void expect_same(const LanguageConfig& config) {
  const std::vector<int64_t> tokens = tokens_for_test(kTokens, config.vocabulary);
  std::vector<int64_t> mask(tokens.size(), 1);
  EXPECT_LT(difference(config, tokens, mask), 1e-5);
  for (size_t i = 0; i < 5; ++i) mask[mask.size() - 1 - i] = 0;
  EXPECT_LT(difference(config, tokens, mask), 1e-5) << "padding at the end";
  std::ranges::reverse(mask);
  EXPECT_LT(difference(config, tokens, mask), 1e-5) << "padding before";
}

LanguageConfig with(const std::function<void(LanguageConfig&)>& change) {
  LanguageConfig config = small_config();
  change(config);
  return config;
}

TEST(LanguageGraph, ComputesWhatPlainLoopsCompute) { expect_same(small_config()); }

TEST(LanguageGraph, HasWindowsInSomeLayersWithFrequenciesOfTheirOwn) {
  expect_same(with([](LanguageConfig& c) {
    c.window = 6;
    c.has_window = {true, false};
    c.window_rotary = rotary_of({.theta = 300}, c.head_size, c.context);
  }));
}

TEST(LanguageGraph, HasNormsAroundAndOfHeadsAndSoftCaps) {
  expect_same(with([](LanguageConfig& c) {
    c.norm_place = NormPlace::kAround;
    c.qk_norm = true;
    c.score_cap = 2;
    c.logit_cap = 3;
    c.attention_scale = 0.5;
    c.embedding_scale = 4.5;
    c.activation = Activation::kGeluTanh;
    c.tied_head = true;
  }));
}

TEST(LanguageGraph, HasNormsBehindAndOfAllHeadsAndScales) {
  expect_same(with([](LanguageConfig& c) {
    c.norm_place = NormPlace::kAfterPart;
    c.qk_norm_of_all = true;
    c.residual_scale = 0.3;
    c.logit_scale = 0.25;
    c.turns = {false, true};
  }));
}

TEST(LanguageGraph, HasPerceptronsBesideAttention) {
  for (const PerceptronPlace place : {PerceptronPlace::kBeside, PerceptronPlace::kBesideOneNorm}) {
    expect_same(with([&](LanguageConfig& c) {
      c.norm = NormKind::kLayerNorm;
      c.perceptron_place = place;
      c.head_bias = true;
    }));
  }
}

TEST(LanguageGraph, HasSlopesOfDistancesAndLimitsOfHeads) {
  expect_same(with([](LanguageConfig& c) {
    c.rotary = c.window_rotary = {};
    c.distance_slopes = 8;
    c.qkv_limit = 0.4;
    c.norm = NormKind::kLayerNorm;
    c.norm_bias = false;
  }));
}

TEST(LanguageGraph, HasConvolutionsInThePlaceOfAttention) {
  for (const bool has_bias : {false, true}) {
    expect_same(with([&](LanguageConfig& c) {
      c.short_convolution = {.width = has_bias ? 4 : 3, .bias = has_bias, .layers = {true, false}};
      c.qk_norm = true;
    }));
  }
}

TEST(LanguageGraph, HasPerceptronsThatLearnTheirActivation) {
  expect_same(with([](LanguageConfig& c) {
    c.perceptron = PerceptronKind::kPlain;
    c.activation = Activation::kXielu;
  }));
}

TEST(LanguageGraph, HasEncodersWithWindowsAndWithoutAFirstNorm) {
  expect_same(with([](LanguageConfig& c) {
    c.is_causal = false;
    c.window = 4;
    c.has_window = {false, true};
    c.first_norm = false;
    c.embedding_norm = true;
    c.norm = NormKind::kLayerNorm;
  }));
}

TEST(LanguageGraph, HasExpertsThatARouterPicks) {
  for (const bool is_normalized : {false, true}) {
    expect_same(with([&](LanguageConfig& c) {
      c.experts = {.count = 5, .used = 2, .intermediate = 12, .normalized = is_normalized};
      if (is_normalized) return;
      c.experts.shared = 8;
      c.experts.shared_gate = true;
      c.experts.layers = {false, true};
    }));
  }
}

TEST(LanguageGraph, HasLayerNormsLearnedPositionsAndPlainPerceptrons) {
  const auto learned = [](LanguageConfig& c) {
    c.norm = NormKind::kLayerNorm;
    c.rotary = c.window_rotary = {};
    c.positions = 40;
    c.perceptron = PerceptronKind::kPlain;
    c.activation = Activation::kRelu;
    c.qkv_bias = c.output_bias = c.perceptron_bias = true;
  };
  expect_same(with(learned));
  expect_same(with([&](LanguageConfig& c) {
    learned(c);
    c.position_offset = 2;
    c.position_count = PositionCount::kAttended;
    c.norm_place = NormPlace::kAfter;
    c.final_norm = false;
  }));
}

TEST(LanguageGraph, HasTokensOfAnotherSizeAndScoresDividedByLayer) {
  for (const bool is_tied : {false, true}) {
    expect_same(with([&](LanguageConfig& c) {
      c.embedded_size = 10;
      c.tied_head = is_tied;
      c.divides_by_layer = true;
    }));
  }
}

TEST(LanguageGraph, IsAnEncoder) {
  for (const PositionCount count : {PositionCount::kAll, PositionCount::kUnpadded}) {
    expect_same(with([&](LanguageConfig& c) {
      c.is_causal = false;
      c.norm = NormKind::kLayerNorm;
      c.norm_place = NormPlace::kAfter;
      c.final_norm = false;
      c.embedding_norm = true;
      c.rotary = c.window_rotary = {};
      c.positions = 40;
      c.position_count = count;
      c.position_offset = count == PositionCount::kAll ? 0 : 4;
      c.pad = 3;
      c.token_types = 2;
      c.perceptron = PerceptronKind::kPlain;
      c.activation = Activation::kGelu;
      c.qkv_bias = c.output_bias = c.perceptron_bias = true;
    }));
  }
}

TEST(LanguageGraph, HasBiasesByDistanceAndProjectsNormedTokens) {
  expect_same(with([](LanguageConfig& c) {
    c.is_causal = false;
    c.embedding_norm = true;
    c.embedded_size = 10;
    c.positions = c.context = 40;
    c.token_types = 2;
    c.distances = 12;
  }));
}

TEST(LanguageGraph, TurnsPartOfEachHeadAndByOtherFrequenciesWhereSequencesAreLong) {
  for (const int64_t long_from : {kTokens, kTokens - 1}) {
    expect_same(with([&](LanguageConfig& c) {
      const RotaryScaling scaling = {.type = "longrope",
                                     .factor = 4,
                                     .original_context = long_from,
                                     .short_factors = {1, 1.5, 2},
                                     .long_factors = {1, 4, 8}};
      c.rotary = c.window_rotary = rotary_of(scaling, 6, c.context);
    }));
  }
}

TEST(LanguageGraph, TurnsBySlowerAnglesInSequencesLongerThanTheContext) {
  for (const int64_t context : {kTokens, kTokens / 2}) {
    expect_same(with([&](LanguageConfig& c) {
      c.rotary = c.window_rotary = rotary_of({.type = "dynamic", .factor = 3}, c.head_size, context);
    }));
  }
}

TEST(LanguageGraph, RefusesSizesThatDoNotFit) {
  WeightsForTest weights;
  const auto refused = [&](const std::function<void(LanguageConfig&)>& change, const char* message) {
    try {
      build_language_graph(with(change), weights);
      ADD_FAILURE() << "took it: " << message;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
    }
  };
  refused([](LanguageConfig& c) { c.kv_heads = 4; }, "6 heads of queries for 4 of keys");
  refused([](LanguageConfig& c) { c.layers = int64_t{1} << 40; }, "the number of layers is 1099511627776");
  refused([](LanguageConfig& c) { c.vocabulary = 0; }, "the vocabulary is 0");
  refused([](LanguageConfig& c) { c.has_window = {true}; }, "1 windows for 2 layers");
  refused([](LanguageConfig& c) { c.head_size = 4; }, "8 elements of a head of 4 turn");
}

}  // namespace
}  // namespace detent

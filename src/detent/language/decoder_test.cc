#include "detent/language/decoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "detent/core/error.h"
#include "detent/core/parallel.h"
#include "detent/formats/kernel_environment.h"
#include "detent/inference/integer_executor.h"
#include "detent/language/networks_for_test.h"

namespace detent {
namespace {

/// Bits of rows [begin, end).
bool are_rows(const Tensor& part, const Tensor& whole, int64_t begin, int64_t end) {
  return part.dim(0) == end - begin && part.equals(whole.rows(begin, end));
}

LanguageConfig windowed_config() {
  LanguageConfig config = small_config();
  config.window = 9;
  config.has_window = {true, false};
  config.qk_norm = true;
  config.tied_head = true;
  return config;
}

/// A router picks two of eight perceptrons, which leaves some out for every token and for most prompts.
LanguageConfig config_with_experts() {
  LanguageConfig config = small_config();
  config.experts = {.count = 8, .used = 2, .intermediate = 12, .shared = 8};
  return config;
}

/// Keys and values out of short rows, heads of values of another size.
LanguageConfig config_of_latents() {
  LanguageConfig config = small_config();
  config.kv_heads = config.heads;
  config.head_size = 7;
  config.value_size = 5;
  config.latent = {.rank = 9, .query_rank = 11, .turning = 4, .bias = true};
  config.rotary = config.window_rotary = rotary_of({}, 4, config.context);
  config.experts = {.count = 8, .used = 2, .intermediate = 12, .groups = 2, .group_shares = 1, .scale = 2};
  return config;
}

LanguageConfig config_of_convolutions() {
  LanguageConfig config = small_config();
  config.short_convolution = {.width = 3, .bias = true, .layers = {true, false}};
  return config;
}

/// Places of keys in the scores, queries that grow, a perceptron that learns its activation.
LanguageConfig config_of_slopes() {
  LanguageConfig config = small_config();
  config.rotary = config.window_rotary = {};
  config.distance_slopes = 8;
  config.slopes_of_places = true;
  config.query_growth = 0.25;
  config.query_growth_from = 16;
  config.perceptron = PerceptronKind::kPlain;
  config.activation = Activation::kXielu;
  config.head_layer = config.head_layer_bias = true;
  return config;
}

/// As many tokens as there are rows of positions.
LanguageConfig config_with_positions() {
  LanguageConfig config = small_config();
  config.rotary = config.window_rotary = {};
  config.context = config.positions = 20;
  return config;
}

Graph network(const LanguageConfig& config) {
  WeightsForTest weights;
  return build_language_graph(config, weights);
}

/// The logits of all tokens, without a cache.
Tensor at_once(const Graph& graph, const std::vector<int64_t>& tokens) {
  const auto count = std::ssize(tokens);
  const std::vector<Tensor> inputs = {
      Tensor::from<int64_t>({1, count}, tokens),
      Tensor::from<int64_t>({1, count}, std::vector<int64_t>(tokens.size(), 1))};
  const Tensor logits = IntegerProgram(graph).run(inputs).front();
  return logits.reshaped({logits.dim(1), logits.dim(2)});
}

std::span<const int64_t> part(const std::vector<int64_t>& tokens, int64_t begin, int64_t end) {
  return std::span(tokens).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
}

TEST(Decoder, GivesTheSameBitsTokenByTokenForEveryLength) {
  constexpr int64_t kMost = 200;
  for (const LanguageConfig& config : {small_config(), windowed_config(), config_with_experts(),
                                       config_of_latents(), config_of_slopes(), config_of_convolutions()}) {
    const Graph graph = network(config);
    const Decoder decoder(graph);
    const std::vector<int64_t> tokens = tokens_for_test(kMost, config.vocabulary);
    const Tensor expected = at_once(graph, tokens);
    SequenceCache cache = decoder.start();
    for (int64_t i = 0; i < kMost; ++i)
      ASSERT_TRUE(are_rows(decoder.run(cache, part(tokens, i, i + 1)), expected, i, i + 1)) << i;
    EXPECT_EQ(cache.size(), kMost);
    for (const int64_t length : {1, 2, 15, 16, 17, 63, 64, 65, 128, 129}) {
      SequenceCache of_length = decoder.start();
      EXPECT_TRUE(are_rows(decoder.run(of_length, part(tokens, 0, length)), expected, length - 1, length))
          << length;
    }
  }
}

TEST(Decoder, KnowsHowManyTokensItsNetworkIsMadeFor) {
  const Decoder endless(network(small_config()));
  EXPECT_EQ(endless.context(), 512);
  EXPECT_EQ(endless.positions(), 0);
  const LanguageConfig config = config_with_positions();
  const Decoder decoder(network(config));
  EXPECT_EQ(decoder.context(), 20);
  EXPECT_EQ(decoder.positions(), 20);
  const std::vector<int64_t> tokens = tokens_for_test(21, config.vocabulary);
  SequenceCache cache = decoder.start();
  decoder.run(cache, part(tokens, 0, 20));
  try {
    decoder.run(cache, part(tokens, 20, 21));
    ADD_FAILURE() << "took a token without a position";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "21 tokens: the network has positions for 20, the rows of its table");
  }
}

TEST(Decoder, GivesTheSameBitsHoweverASequenceIsCut) {
  const LanguageConfig config = windowed_config();
  const Graph graph = network(config);
  const Decoder decoder(graph);
  const std::vector<int64_t> tokens = tokens_for_test(150, config.vocabulary);
  const Tensor expected = at_once(graph, tokens);
  for (const int64_t chunk : {1, 2, 7, 16, 31, 64, 100, 150}) {
    SequenceCache cache = decoder.start();
    for (int64_t begin = 0; begin < 150; begin += chunk) {
      const int64_t end = std::min<int64_t>(begin + chunk, 150);
      const Tensor logits = decoder.run(cache, part(tokens, begin, end), WantedLogits::kOfAllTokens);
      ASSERT_TRUE(are_rows(logits, expected, begin, end)) << chunk << " " << begin;
    }
  }
}

TEST(Decoder, RunsSequencesOfDifferentLengthsBesideEachOther) {
  const LanguageConfig config = small_config();
  const Decoder decoder(network(config));
  constexpr int64_t kSequences = 16;
  std::vector<std::vector<int64_t>> tokens;
  std::vector<SequenceCache> alone;
  std::vector<SequenceCache> together;
  std::vector<DecoderInput> inputs;
  for (int64_t i = 0; i < kSequences; ++i) {
    tokens.push_back(tokens_for_test(3 * i + 1, config.vocabulary - i));
    alone.push_back(decoder.start());
    together.push_back(decoder.start());
  }
  for (size_t i = 0; i < tokens.size(); ++i) inputs.push_back({&together[i], tokens[i]});
  for (int round = 0; round < 3; ++round) {
    const std::vector<Tensor> logits = decoder.run(inputs);
    for (size_t i = 0; i < tokens.size(); ++i) {
      EXPECT_TRUE(decoder.run(alone[i], inputs[i].tokens).equals(logits[i])) << i;
      inputs[i].tokens = std::span(tokens[i]).first(1);
    }
  }
}

TEST(Decoder, GivesTheSameBitsWithAnyNumberOfThreads) {
  const LanguageConfig config = windowed_config();
  const std::vector<int64_t> tokens = tokens_for_test(70, config.vocabulary);
  const int before = thread_count();
  std::vector<Tensor> results;
  for (const int threads : {1, 2, 5}) {
    set_thread_count(threads);
    const Decoder decoder(network(config));
    SequenceCache cache = decoder.start();
    results.push_back(decoder.run(cache, tokens, WantedLogits::kOfAllTokens));
  }
  set_thread_count(before);
  EXPECT_TRUE(results[0].equals(results[1]));
  EXPECT_TRUE(results[0].equals(results[2]));
}

TEST(Decoder, GivesTheSameBitsOnEveryInstructionSet) {
  const LanguageConfig config = windowed_config();
  const std::vector<int64_t> tokens = tokens_for_test(70, config.vocabulary);
  const Decoder decoder(network(config));
  std::vector<Tensor> results;
  for (const std::string& target : simd_targets()) {
    set_simd_target(target, "test");
    SequenceCache cache = decoder.start();
    decoder.run(cache, part(tokens, 0, 69));
    results.push_back(decoder.run(cache, part(tokens, 69, 70)));
    EXPECT_TRUE(results.back().equals(results.front())) << target;
  }
  set_simd_target(simd_targets().front(), "test");
}

TEST(Decoder, GoesOnFromAnEarlierTokenAndGrowsByPages) {
  const LanguageConfig config = small_config();
  const Decoder decoder(network(config));
  const std::vector<int64_t> tokens = tokens_for_test(130, config.vocabulary);
  SequenceCache cache = decoder.start();
  EXPECT_EQ(cache.byte_size(), 0);
  decoder.run(cache, part(tokens, 0, 64));
  const int64_t bytes = cache.byte_size();
  const Tensor expected = decoder.run(cache, part(tokens, 64, 65));
  EXPECT_EQ(cache.byte_size(), 2 * bytes);
  decoder.run(cache, part(tokens, 65, 128));
  EXPECT_EQ(cache.byte_size(), 2 * bytes);
  decoder.run(cache, part(tokens, 128, 129));
  EXPECT_EQ(cache.byte_size(), 3 * bytes);
  cache.truncate(64);
  EXPECT_EQ(cache.byte_size(), bytes);
  EXPECT_TRUE(decoder.run(cache, part(tokens, 64, 65)).equals(expected));
}

TEST(Decoder, RefusesTokensAndNetworksThatItDoesNotHave) {
  const LanguageConfig config = small_config();
  const Decoder decoder(network(config));
  EXPECT_EQ(decoder.vocabulary(), config.vocabulary);
  SequenceCache cache = decoder.start();
  const std::vector<int64_t> wrong = {1, config.vocabulary};
  const auto message = [&](const auto& run) -> std::string {
    try {
      run();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message([&] { decoder.run(cache, wrong); }), "token 61: the vocabulary has 0 to 60");
  EXPECT_EQ(cache.size(), 0);
  LanguageConfig encoder = config;
  encoder.is_causal = false;
  const std::string refused = message([&] { Decoder{network(encoder)}; });
  EXPECT_NE(refused.find("no causal language model"), std::string::npos) << refused;
}

TEST(Decoder, LeavesCachesAsTheyWereWhereARunFails) {
  LanguageConfig config = small_config();
  config.rotary = config.window_rotary = {};
  config.positions = 10;
  const Graph graph = network(config);
  const Decoder decoder(graph);
  const std::vector<int64_t> tokens = tokens_for_test(11, config.vocabulary);
  SequenceCache cache = decoder.start();
  decoder.run(cache, part(tokens, 0, 8));
  EXPECT_THROW(decoder.run(cache, part(tokens, 8, 11)), Error);
  EXPECT_EQ(cache.size(), 8);
  const Tensor expected = at_once(graph, {tokens.begin(), tokens.begin() + 10});
  EXPECT_TRUE(are_rows(decoder.run(cache, part(tokens, 8, 10)), expected, 9, 10));
}

}  // namespace
}  // namespace detent

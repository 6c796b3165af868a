#include "detent/language/cache_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "detent/core/error.h"
#include "detent/formats/kernel_environment.h"
#include "detent/inference/integer_executor.h"
#include "detent/language/decoder.h"
#include "detent/language/networks_for_test.h"

namespace detent {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int64_t kCachedTokens = 70;  // more than a page

std::vector<int64_t> cached_tokens() { return tokens_for_test(kCachedTokens, small_config().vocabulary); }

Graph network_with_cache(const std::string& cache_format) {
  WeightsForTest weights;
  LanguageConfig config = small_config();
  config.layers = 1;
  Graph graph = build_language_graph(config, weights);
  if (!cache_format.empty()) quantize_cache(graph, parse_cache_format(cache_format, "test"));
  return graph;
}

/// Keys and values rounded by nodes, and no cache.
Tensor simulated_cache(const std::string& cache_format) {
  const std::vector<Tensor> inputs = {
      Tensor::from<int64_t>({1, kCachedTokens}, cached_tokens()),
      Tensor::from<int64_t>({1, kCachedTokens}, std::vector<int64_t>(size_t{kCachedTokens}, 1))};
  const Tensor logits = IntegerProgram(network_with_cache(cache_format)).run(inputs).front();
  return logits.reshaped({kCachedTokens, logits.dim(2)});
}

/// The logits of all tokens, so many at a time.
void expect_cached(const Decoder& decoder, const Tensor& expected, int64_t at_once) {
  SequenceCache cache = decoder.start();
  const std::vector<int64_t> all = cached_tokens();
  for (int64_t begin = 0; begin < kCachedTokens; begin += at_once) {
    const int64_t end = std::min(kCachedTokens, begin + at_once);
    const auto part = std::span(all).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    const Tensor logits = decoder.run(cache, part, WantedLogits::kOfAllTokens);
    ASSERT_TRUE(logits.equals(expected.rows(begin, end))) << begin << " by " << at_once;
  }
}

TEST(CacheFormat, GivesTheBitsOfFakeQuantizationHoweverASequenceIsCut) {
  const Tensor plain = simulated_cache("");
  for (const char* format :
       {"int8", "uint8", "int5", "int4", "uint4", "int2", "fp8_e4m3fn", "fp4_e2m1", "scaled:element=fp8_e5m2",
        "scaled:element=fp4_e2m1", "codebook16", "ternary:scaling_factor=true"}) {
    SCOPED_TRACE(format);
    const Tensor expected = simulated_cache(format);
    EXPECT_FALSE(expected.equals(plain));
    const Decoder decoder(network_with_cache(format));
    for (const int64_t at_once : {int64_t{1}, int64_t{9}, kCachedTokens})
      expect_cached(decoder, expected, at_once);
  }
}

TEST(CacheFormat, GivesTheSameBitsOnEveryInstructionSet) {
  for (const char* format : {"uint4", "scaled:element=fp8_e4m3fn"}) {
    const Tensor expected = simulated_cache(format);
    const Decoder decoder(network_with_cache(format));
    for (const std::string& target : simd_targets()) {
      set_simd_target(target, "test");
      SCOPED_TRACE(target);
      expect_cached(decoder, expected, 33);
    }
    set_simd_target(simd_targets().front(), "test");
  }
}

TEST(CacheFormat, TakesTheBytesOfItsCodesAndIsAnnounced) {
  const auto bytes = [](const std::string& format) {
    const Decoder decoder(network_with_cache(format));
    SequenceCache cache = decoder.start();
    decoder.run(cache, cached_tokens());
    EXPECT_EQ(cache.byte_size(), decoder.memory({.tokens = kCachedTokens, .at_once = 1}).cache) << format;
    return cache.byte_size();
  };
  // Two pages of 64 tokens, of two heads; 8 elements of keys, and 16 of values, which are filled up.
  constexpr int64_t kElements = int64_t{2} * 64 * 2 * (8 + 16);
  constexpr int64_t kScales = int64_t{2} * 64 * 2 * 2 * 4;
  EXPECT_EQ(bytes(""), 4 * kElements);
  EXPECT_EQ(bytes("fp8_e4m3fn"), kElements);
  EXPECT_EQ(bytes("int8"), kElements + kScales);
  EXPECT_EQ(bytes("int4"), kElements / 2 + kScales);
  EXPECT_EQ(bytes("uint4"), kElements / 2 + 2 * kScales);
}

TEST(CacheFormat, RefusesFormatsThatCachesDoNotHave) {
  for (const char* format : {"mx_e4m3", "int9", "fp16", "affine:scale=0.5", "binary:stochastic=true"}) {
    EXPECT_THAT([&] { parse_cache_format(format, "--cache-format"); },
                ThrowsMessage<Error>(HasSubstr("--cache-format: ")))
        << format;
  }
  EXPECT_THAT([&] { parse_cache_format("int4_g32", "--cache-format"); },
              ThrowsMessage<Error>(HasSubstr("a scale of its own")));
}

TEST(CacheFormat, RefusesNetworksThatRoundKeysAlready) {
  Graph graph = network_with_cache("int8");
  EXPECT_THAT([&] { quantize_cache(graph, parse_cache_format("int4", "test")); },
              ThrowsMessage<Error>(HasSubstr("quantized already")));
  Graph without = network_with_cache("");
  for (Node& node : without.nodes()) node.target.clear();
  EXPECT_THAT([&] { quantize_cache(without, parse_cache_format("int4", "test")); },
              ThrowsMessage<Error>(HasSubstr("no keys and values")));
}

}  // namespace
}  // namespace detent

#include "detent/workflows/resource_use.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include <fmt/format.h>

#include "detent/core/parallel.h"
#include "detent/core/process_resources.h"
#include "detent/core/sanitizers_for_test.h"
#include "detent/language/networks_for_test.h"

namespace detent {
namespace {

/// Wide enough that a run takes more than the program itself.
LanguageConfig wide_config() {
  LanguageConfig config = small_config();
  config.hidden = 192;
  config.intermediate = 512;
  config.head_size = 32;
  config.vocabulary = 8000;
  config.rotary = config.window_rotary = rotary_of({}, config.head_size, config.context);
  return config;
}

/// Runs so many tokens in a new process; leaves it with 0 where the announced bytes were kept, and with more
/// where they were too few, or twice as many as were needed.
void run_announced(int64_t at_once, int64_t sequences, bool all_logits) {
  constexpr int64_t kTokens = 480;
  constexpr double kMargin = 1.1;
  set_thread_count(1);
  WeightsForTest weights;
  const LanguageConfig config = wide_config();
  const Decoder decoder(build_language_graph(config, weights));
  const int64_t announced = announce_memory(
      decoder, {.sequences = sequences, .tokens = kTokens, .at_once = at_once, .all_logits = all_logits});
  const std::vector<int64_t> tokens = tokens_for_test(kTokens, config.vocabulary);
  std::vector<SequenceCache> caches;
  for (int64_t i = 0; i < sequences; ++i) caches.push_back(decoder.start());
  for (int64_t begin = 0; begin < kTokens; begin += at_once) {
    std::vector<DecoderInput> inputs;
    for (SequenceCache& cache : caches)
      inputs.push_back(
          {&cache, std::span(tokens).subspan(static_cast<size_t>(begin), static_cast<size_t>(at_once))});
    decoder.run(inputs, all_logits ? WantedLogits::kOfAllTokens : WantedLogits::kOfLastToken);
  }
  const auto taken = static_cast<double>(resident_memory().most);
  fmt::print(stderr, "announced {}, taken {}\n", announced, taken);
  const auto most = static_cast<double>(announced);
  std::exit(taken > kMargin * most ? 1 : 2 * taken < most ? 2 : 0);
}

TEST(MemoryAnnouncementDeathTest, IsKept) {
  DETENT_SKIP_UNDER_SANITIZERS();  // which keep what is freed
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(run_announced(480, 1, true), testing::ExitedWithCode(0), "announced");
  EXPECT_EXIT(run_announced(480, 1, false), testing::ExitedWithCode(0), "announced");
  EXPECT_EXIT(run_announced(60, 1, true), testing::ExitedWithCode(0), "announced");
  EXPECT_EXIT(run_announced(1, 1, false), testing::ExitedWithCode(0), "announced");
  EXPECT_EXIT(run_announced(60, 8, false), testing::ExitedWithCode(0), "announced");
}

TEST(DecoderMemory, CountsTheCacheAsItGrows) {
  WeightsForTest weights;
  const Decoder decoder(build_language_graph(small_config(), weights));
  for (const int64_t tokens : {1, 64, 65, 200}) {
    SequenceCache cache = decoder.start();
    decoder.run(cache, tokens_for_test(tokens, small_config().vocabulary));
    const int64_t counted = decoder.memory({.tokens = tokens, .at_once = tokens}).cache;
    EXPECT_EQ(counted, cache.byte_size()) << tokens;
  }
}

}  // namespace
}  // namespace detent

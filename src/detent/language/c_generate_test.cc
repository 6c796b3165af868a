#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <thread>
#include <utility>
#include <vector>

#include "detent/checkpoints/gguf/gguf_for_test.h"
#include "detent/engine.h"
#include "detent/files/file.h"
#include "detent/files/temporary_file_test.h"
#include "detent/graph_files/graph_file.h"
#include "detent/language/cache_format.h"
#include "detent/language/decoder.h"
#include "detent/language/networks_for_test.h"
#include "detent/language/sampling.h"

namespace detent {
namespace {

using testing::HasSubstr;

class GenerateInC : public testing::Test {
 protected:
  GenerateInC() {
    write_graph(path_.get(), network());
    EXPECT_EQ(detent_generate_load(path_.get().c_str(), &generator_), DETENT_OK) << detent_error_text();
  }
  ~GenerateInC() override { detent_generate_free(generator_); }

  static Graph network() {
    WeightsForTest weights;
    return build_language_graph(small_config(), weights);
  }

  /// By the decoder itself, without a cache.
  static std::vector<int64_t> expected(std::vector<int64_t> sequence, int64_t count,
                                       const SamplingOptions& sampling, const Graph& graph = network()) {
    const Decoder decoder(graph);
    std::vector<int64_t> drawn;
    for (int64_t i = 0; i < count; ++i) {
      SequenceCache cache = decoder.start();
      const Tensor logits = decoder.run(cache, sequence);
      drawn.push_back(draw_token(logits.values<float>(), sequence, std::ssize(sequence), sampling));
      sequence.push_back(drawn.back());
    }
    return drawn;
  }

  std::vector<int64_t> run(const std::vector<int64_t>& prompt, const detent_generate_options& options) const {
    std::vector<int64_t> tokens(64, -1);
    size_t count = 0;
    EXPECT_EQ(detent_generate_run(generator_, prompt.data(), prompt.size(), &options, nullptr, nullptr,
                                  tokens.data(), tokens.size(), &count),
              DETENT_OK)
        << detent_error_text();
    tokens.resize(count);
    return tokens;
  }

  static detent_generate_options options(int64_t max_tokens) {
    detent_generate_options options;
    detent_generate_defaults(&options);
    options.max_tokens = max_tokens;
    return options;
  }

  TemporaryPath path_{"generate.mz"};
  detent_generator* generator_ = nullptr;
};

TEST_F(GenerateInC, DrawsTheTokensOfTheDecoder) {
  EXPECT_EQ(detent_generate_vocabulary(generator_), small_config().vocabulary);
  EXPECT_EQ(run({5, 17, 30}, options(12)), expected({5, 17, 30}, 12, {}));
  detent_generate_options drawn = options(20);
  drawn.temperature = 1.5;
  drawn.top_p = 0.9;
  drawn.seed = 7;
  const SamplingOptions sampling{.temperature = 1.5, .top_p = 0.9, .seed = 7};
  EXPECT_EQ(run({5, 17, 30}, drawn), expected({5, 17, 30}, 20, sampling));
}

TEST_F(GenerateInC, EndsAfterAnEndAndWhereTheCallerSaysSo) {
  const std::vector<int64_t> all = run({5, 17, 30}, options(12));
  detent_generate_options ended = options(12);
  ended.ends = &all[4];
  ended.end_count = 1;
  const auto first = std::ranges::find(all, all[4]);
  EXPECT_EQ(run({5, 17, 30}, ended), std::vector<int64_t>(all.begin(), first + 1));
  std::vector<int64_t> seen;
  const detent_token_callback callback = [](void* user, int64_t token) -> int32_t {
    auto& tokens = *static_cast<std::vector<int64_t>*>(user);
    tokens.push_back(token);
    return tokens.size() == 3 ? 1 : 0;
  };
  const std::vector<int64_t> prompt = {5, 17, 30};
  size_t count = 0;
  int64_t one = 0;
  EXPECT_EQ(detent_generate_run(generator_, prompt.data(), 3, nullptr, callback, &seen, &one, 1, &count),
            DETENT_OK);
  EXPECT_EQ(count, 3U);
  EXPECT_EQ(one, all.front());
  EXPECT_EQ(seen, std::vector<int64_t>(all.begin(), all.begin() + 3));
}

/// A folder as quantize writes it.
TEST_F(GenerateInC, HasTheEndsOfTheFilesBesideAGraph) {
  const TemporaryPath folder("quantized");
  std::filesystem::create_directories(folder.get());
  write_graph(folder.get() / "graph_module.mz", network());
  const auto ends = [&](const std::filesystem::path& path) {
    detent_generator* generator = nullptr;
    EXPECT_EQ(detent_generate_load(path.c_str(), &generator), DETENT_OK) << detent_error_text();
    std::vector<int64_t> tokens(4, -1);
    size_t count = 0;
    EXPECT_EQ(detent_generate_ends(generator, tokens.data(), tokens.size(), &count), DETENT_OK);
    detent_generate_free(generator);
    tokens.resize(count);
    return tokens;
  };
  EXPECT_TRUE(ends(folder.get()).empty());
  write_file(folder.get() / "generation_config.json", R"({"eos_token_id": [7, 9]})");
  EXPECT_EQ(ends(folder.get()), (std::vector<int64_t>{7, 9}));
  EXPECT_EQ(ends(folder.get() / "graph_module.mz"), (std::vector<int64_t>{7, 9}));
  write_file(folder.get() / "tokenizer.gguf", GgufBytes().integer("tokenizer.ggml.eos_token_id", 5).bytes());
  EXPECT_EQ(ends(folder.get()), (std::vector<int64_t>{5}));
}

TEST_F(GenerateInC, RunsInSeveralThreads) {
  const std::vector<int64_t> alone = run({5, 17, 30}, options(30));
  std::vector<std::vector<int64_t>> results(4);
  std::vector<std::thread> threads;
  for (std::vector<int64_t>& result : results)
    threads.emplace_back([&] { result = run({5, 17, 30}, options(30)); });
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<int64_t>& result : results) EXPECT_EQ(result, alone);
}

TEST_F(GenerateInC, KeepsKeysAndValuesInAFormat) {
  detent_generator* generator = nullptr;
  ASSERT_EQ(detent_generate_load_with_cache(path_.get().c_str(), "int2", &generator), DETENT_OK);
  std::swap(generator, generator_);
  Graph graph = network();
  quantize_cache(graph, parse_cache_format("int2", "test"));
  const std::vector<int64_t> tokens = run({5, 17, 30}, options(24));
  EXPECT_EQ(tokens, expected({5, 17, 30}, 24, {}, graph));
  EXPECT_NE(tokens, expected({5, 17, 30}, 24, {}));
  detent_generate_free(generator);
  EXPECT_EQ(detent_generate_load_with_cache(path_.get().c_str(), "int16", &generator), DETENT_BAD_ARGUMENT);
  EXPECT_EQ(generator, nullptr);
  EXPECT_THAT(detent_error_text(), HasSubstr("cache_format: got \"int16\""));
}

TEST_F(GenerateInC, RefusesWhatItCannotUse) {
  const int64_t token = 61;
  EXPECT_EQ(detent_generate_run(generator_, &token, 1, nullptr, nullptr, nullptr, nullptr, 0, nullptr),
            DETENT_BAD_INPUT);
  EXPECT_THAT(detent_error_text(), HasSubstr("token 61: the vocabulary has 0 to 60"));
  EXPECT_EQ(detent_generate_run(generator_, &token, 0, nullptr, nullptr, nullptr, nullptr, 0, nullptr),
            DETENT_BAD_ARGUMENT);
  const detent_generate_options none = options(0);
  EXPECT_EQ(detent_generate_run(generator_, &token, 1, &none, nullptr, nullptr, nullptr, 0, nullptr),
            DETENT_BAD_ARGUMENT);
  EXPECT_THAT(detent_error_text(), HasSubstr("max_tokens of 0"));
  detent_generator* missing = generator_;
  EXPECT_EQ(detent_generate_load("/nowhere/model.gguf", &missing), DETENT_BAD_FILE);
  EXPECT_EQ(missing, nullptr);
  EXPECT_THAT(detent_error_text(), HasSubstr("expected a folder, a GGUF file or a graph"));
  EXPECT_EQ(detent_generate_load(nullptr, &missing), DETENT_BAD_ARGUMENT);
}

}  // namespace
}  // namespace detent

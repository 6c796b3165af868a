#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>
#include <sstream>

#include "detent/cli/program_for_test.h"
#include "detent/core/error.h"
#include "detent/files/file.h"
#include "detent/files/json.h"
#include "detent/files/temporary_file_test.h"
#include "detent/graph_files/graph_file.h"
#include "detent/language/cache_format.h"
#include "detent/language/decoder.h"
#include "detent/language/networks_for_test.h"
#include "detent/language/sampling.h"

namespace detent {
namespace {

using testing::HasSubstr;

/// A network of 61 tokens: "</s>" is 0, the others are letters, one a token.
class GenerateCommand : public testing::Test {
 protected:
  GenerateCommand() {
    std::filesystem::create_directories(folder_.get());
    write_graph(path("network.mz"), network());
    Table vocabulary{{"</s>", 0}};
    for (int64_t id = 1; id < small_config().vocabulary; ++id) vocabulary[letter(id)] = id;
    const Table json{{"model", Table{{"type", "BPE"}, {"vocab", vocabulary}, {"merges", List{}}}},
                     {"added_tokens", List{Table{{"id", 0}, {"content", "</s>"}, {"special", true}}}},
                     {"decoder", Table{{"type", "Fuse"}}}};
    write_json(path("tokenizer.json"), json);
    write_file(
        path("tokenizer_config.json"),
        R"({"eos_token": "</s>", "chat_template": "{% for m in messages %}{{ m.role[0] + m.content }}{% endfor %}"})");
  }

  static Graph network() {
    WeightsForTest weights;
    return build_language_graph(small_config(), weights);
  }
  static std::string letter(int64_t id) { return std::string(1, static_cast<char>('@' + id)); }
  std::string path(const std::string& name) const { return folder_.get() / name; }

  ProgramResult run(std::vector<std::string> args) const {
    args.insert(args.begin(), {"generate", path("network.mz")});
    return run_program(args);
  }

  /// By the largest logit but that of the end, with the network itself.
  static std::vector<int64_t> greedy(std::vector<int64_t> sequence, int64_t count) {
    const Decoder decoder(network());
    std::vector<int64_t> drawn;
    for (int64_t i = 0; i < count; ++i) {
      SequenceCache cache = decoder.start();
      const Tensor logits = decoder.run(cache, sequence);
      drawn.push_back(1 + most_likely(logits.values<float>().subspan(1)));
      sequence.push_back(drawn.back());
    }
    return drawn;
  }
  static std::string ids_text(const std::vector<int64_t>& ids) {
    std::string text;
    for (const int64_t id : ids) text += (text.empty() ? "" : ",") + std::to_string(id);
    return text + "\n";
  }
  static std::string letters(const std::vector<int64_t>& ids) {
    std::string text;
    for (const int64_t id : ids) text += letter(id);
    return text;
  }

  TemporaryPath folder_{"generate_command"};
};

TEST_F(GenerateCommand, ContinuesWithTheMostLikelyTokens) {
  const std::vector<int64_t> expected = greedy({5, 17, 30}, 12);
  const ProgramResult ids =
      run({"--prompt-ids", "5,17,30", "--print-ids", "--max-tokens", "12", "--ignore-eos"});
  EXPECT_EQ(ids.output, ids_text(expected)) << ids.errors;
  const ProgramResult text =
      run({"--prompt", letters({5, 17, 30}), "--max-tokens", "12", "--num-threads", "2", "--ignore-eos"});
  EXPECT_EQ(text.output, letters(expected) + "\n") << text.errors;
}

TEST_F(GenerateCommand, KeepsKeysAndValuesInAFormat) {
  Graph graph = network();
  quantize_cache(graph, parse_cache_format("int2", "test"));
  const Decoder decoder(std::move(graph));
  SequenceCache cache = decoder.start();
  std::vector<int64_t> drawn = {5, 17, 30};
  std::span<const int64_t> next = drawn;
  for (int i = 0; i < 12; ++i) {
    const Tensor logits = decoder.run(cache, std::vector<int64_t>(next.begin(), next.end()));
    drawn.push_back(1 + most_likely(logits.values<float>().subspan(1)));
    next = std::span(drawn).last(1);
  }
  const std::vector<int64_t> expected(drawn.begin() + 3, drawn.end());
  const ProgramResult ids = run({"--prompt-ids", "5,17,30", "--print-ids", "--max-tokens", "12",
                                 "--ignore-eos", "--cache-format", "int2"});
  EXPECT_EQ(ids.output, ids_text(expected)) << ids.errors;
  EXPECT_NE(expected, greedy({5, 17, 30}, 12));
  const ProgramResult wrong = run({"--prompt-ids", "5", "--print-ids", "--cache-format", "fp16"});
  EXPECT_THAT(wrong.errors, HasSubstr("--cache-format: got \"fp16\""));
}

TEST_F(GenerateCommand, ContinuesSeveralPromptsAsEachAlone) {
  constexpr int kPrompts = 8;
  std::vector<std::string> several = {"--print-ids", "--max-tokens", "9", "--ignore-eos",    "--temperature",
                                      "1.2",         "--seed",       "5", "--num-sequences", "2"};
  std::string alone;
  for (int64_t i = 0; i < kPrompts; ++i) {
    const std::string ids = ids_text(tokens_for_test(3 + 2 * i, 60 - i));
    const std::string prompt = ids.substr(0, ids.size() - 1);
    several.insert(several.end(), {"--prompt-ids", prompt});
    for (const char* seed : {"5", "6"}) {
      alone += run({"--print-ids", "--max-tokens", "9", "--ignore-eos", "--temperature", "1.2", "--seed",
                    seed, "--prompt-ids", prompt})
                   .output;
    }
  }
  const ProgramResult result = run(several);
  EXPECT_EQ(result.output, alone) << result.errors;
}

TEST_F(GenerateCommand, SaysOfWhichSequenceALineIs) {
  const ProgramResult result =
      run({"--prompt", "ABC", "--num-sequences", "2", "--max-tokens", "3", "--ignore-eos", "--json"});
  const std::string last = result.output.substr(result.output.rfind('\n', result.output.size() - 2) + 1);
  const Value summary = parse_json(last, "generate");
  EXPECT_EQ(*summary.get_if<Table>()->find("sequence"), Value(1)) << result.errors;
  EXPECT_EQ(summary.get_if<Table>()->find("tokens")->get_if<List>()->size(), 3U);
  EXPECT_THAT(result.errors, HasSubstr("memory: at most"));
  const ProgramResult text = run({"--prompt", "ABC", "--prompt", "D", "--max-tokens", "3", "--ignore-eos"});
  EXPECT_EQ(text.output,
            "== 1\n" + letters(greedy({1, 2, 3}, 3)) + "\n== 2\n" + letters(greedy({4}, 3)) + "\n");
}

TEST_F(GenerateCommand, EndsAtAStopString) {
  const std::string all = letters(greedy({5, 17, 30}, 12));
  const size_t place = all.find(all.substr(5, 3));
  const ProgramResult result = run({"--prompt-ids", "5,17,30", "--max-tokens", "12", "--ignore-eos", "--stop",
                                    all.substr(5, 3), "--json"});
  const std::string last = result.output.substr(result.output.rfind('\n', result.output.size() - 2) + 1);
  const Value value = parse_json(last, "generate");
  const Table& summary = *value.get_if<Table>();
  EXPECT_EQ(*summary.find("text"), Value(all.substr(0, place)));
  EXPECT_EQ(*summary.find("stopped_by"), Value("stop"));
  EXPECT_EQ(*summary.find("prompt_tokens"), Value(3));
  EXPECT_EQ(summary.find("tokens")->get_if<List>()->size(), place + 3);
}

TEST_F(GenerateCommand, DrawsTheSameTextWithTheSameSeed) {
  const auto text = [&](const std::string& seed, const std::string& threads) {
    return run({"--prompt", "ABC", "--temperature", "1.5", "--top-p", "0.95", "--ignore-eos", "--max-tokens",
                "30", "--seed", seed, "--num-threads", threads})
        .output;
  };
  EXPECT_EQ(text("1", "1").size(), 31U);
  EXPECT_EQ(text("1", "1"), text("1", "2"));
  EXPECT_NE(text("1", "1"), text("2", "1"));
}

TEST_F(GenerateCommand, EndsAtTheTokenThatEndsATextUnlessToldNotTo) {
  // Many draws of a flat distribution: the end is one of 61 tokens.
  const auto ids = [&](bool ignores) {
    std::vector<std::string> args = {"--prompt",     "A",   "--temperature", "1000",
                                     "--max-tokens", "500", "--print-ids"};
    if (ignores) args.emplace_back("--ignore-eos");
    return "," + run(args).output;
  };
  EXPECT_TRUE(ids(false).ends_with(",0\n")) << ids(false);
  EXPECT_EQ(ids(true).find(",0,"), std::string::npos);
  EXPECT_EQ(std::ranges::count(ids(true), ','), 500);
}

TEST_F(GenerateCommand, ChatsByTheTemplate) {
  // "u" + content; letters are tokens 'u' - '@' and so on.
  const auto token = [](char character) { return static_cast<int64_t>(character - '@'); };
  const std::vector<int64_t> first = greedy({token('u'), token('A')}, 4);
  const ProgramResult once = run({"--chat", "--prompt", "A", "--max-tokens", "4", "--ignore-eos"});
  ASSERT_EQ(once.output, letters(first) + "\n") << once.errors;
  std::istringstream lines("A\nB\n");
  std::streambuf* const before = std::cin.rdbuf(lines.rdbuf());
  const ProgramResult chat = run({"--chat", "--max-tokens", "4", "--ignore-eos"});
  std::cin.rdbuf(before);
  std::vector<int64_t> sequence = {token('u'), token('A'), token('a')};
  sequence.insert(sequence.end(), first.begin(), first.end());
  sequence.insert(sequence.end(), {token('u'), token('B')});
  EXPECT_EQ(chat.output, letters(first) + "\n" + letters(greedy(sequence, 4)) + "\n") << chat.errors;
}

TEST_F(GenerateCommand, RefusesWhatMakesNoSense) {
  const auto errors = [&](const std::vector<std::string>& args) {
    const ProgramResult result = run(args);
    EXPECT_EQ(result.status, 2) << result.output;
    return result.errors;
  };
  EXPECT_THAT(errors({}), HasSubstr("--prompt-ids"));
  EXPECT_THAT(errors({"--prompt", "A", "--prompt-ids", "1"}), HasSubstr("exclude each other"));
  EXPECT_THAT(errors({"--prompt-ids", "1,x"}), HasSubstr("1,x"));
  EXPECT_THAT(errors({"--prompt", "A", "--max-tokens", "0"}), HasSubstr("--max-tokens"));
  EXPECT_THAT(errors({"--prompt", "A", "--top-p", "2"}), HasSubstr("--top-p"));
  EXPECT_THAT(errors({"--prompt", "A", "--system", "x"}), HasSubstr("--chat"));
  EXPECT_THAT(run({"--prompt", "~"}).errors, HasSubstr("no tokens"));
  EXPECT_THAT(run({"--prompt-ids", "61"}).errors, HasSubstr("61"));
  std::filesystem::remove(path("tokenizer.json"));
  EXPECT_THAT(run({"--prompt", "A"}).errors, HasSubstr("--tokenizer"));
  EXPECT_THAT(run({"--prompt-ids", "1"}).errors, HasSubstr("--print-ids"));
  EXPECT_EQ(run({"--prompt-ids", "1", "--print-ids", "--max-tokens", "2"}).status, 0);
}

}  // namespace
}  // namespace detent

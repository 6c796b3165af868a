#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/cli/language_model.h"
#include "detent/cli/program_for_test.h"
#include "detent/files/array_files.h"
#include "detent/files/file.h"
#include "detent/files/json.h"
#include "detent/files/temporary_file_test.h"
#include "detent/graph_files/graph_file.h"
#include "detent/language/networks_for_test.h"
#include "detent/language/perplexity.h"

namespace detent {
namespace {

using testing::HasSubstr;

class PerplexityCommand : public testing::Test {
 protected:
  PerplexityCommand() {
    std::filesystem::create_directories(folder_.get());
    write_graph(path("network.mz"), network());
    write_npy(path("ids.npy"), Tensor::from<int64_t>({kTokens}, tokens()));
  }

  static Graph network() {
    WeightsForTest weights;
    return build_language_graph(small_config(), weights);
  }
  static std::vector<int64_t> tokens() { return tokens_for_test(kTokens, small_config().vocabulary); }
  std::string path(const std::string& name) const { return folder_.get() / name; }

  /// With the network and the tokens.
  ProgramResult run(std::vector<std::string> args) const {
    args.insert(args.begin(), {"perplexity", path("network.mz"), "--ids", path("ids.npy")});
    return run_program(args);
  }
  Table results(const std::vector<std::string>& args) const {
    std::vector<std::string> with_json = args;
    with_json.emplace_back("--json");
    const ProgramResult result = run(with_json);
    EXPECT_EQ(result.status, 0) << result.errors;
    const Value value = parse_json(result.output, "perplexity");
    return *value.get_if<Table>();
  }

  static constexpr int64_t kTokens = 70;
  TemporaryPath folder_{"perplexity_command"};
};

TEST_F(PerplexityCommand, GivesWhatTheScoresAre) {
  const PerplexityOptions options{.window = 20, .stride = 7, .windows = 5};
  const Decoder decoder(network());
  const auto windows = token_windows(options, kTokens);
  const TokenScores expected = score_tokens(logits_of(decoder, 3), {}, tokens(), windows, options);
  for (const char* threads : {"1", "2"}) {
    const Table found =
        results({"--window", "20", "--stride", "7", "--windows", "5", "--num-threads", threads});
    EXPECT_EQ(*found.find("perplexity"), Value(expected.perplexity()));
    EXPECT_EQ(*found.find("mean_loss"), Value(expected.mean_loss()));
    EXPECT_EQ(*found.find("scored_tokens"), Value(std::ssize(expected.losses)));
    EXPECT_EQ(found.find("reference"), nullptr);
  }
}

TEST_F(PerplexityCommand, ComparesWithLogitsThatItKept) {
  const std::vector<std::string> halves = {"--window", "20", "--protocol", "halves"};
  std::vector<std::string> keeping = halves;
  keeping.insert(keeping.end(), {"--save-logits", path("logits.npy"), "--losses", path("losses.npy")});
  const Table first = results(keeping);
  EXPECT_EQ(read_npy(path("logits.npy")).shape(), (Shape{27, 61}));
  EXPECT_EQ(read_npy(path("losses.npy")).shape(), (Shape{27}));
  std::vector<std::string> comparing = halves;
  comparing.insert(comparing.end(), {"--reference-logits", path("logits.npy")});
  Table second = results(comparing);
  EXPECT_EQ(*second.find("perplexity"), *first.find("perplexity"));
  EXPECT_EQ(*second.table("reference").find("perplexity"), *first.find("perplexity"));
  EXPECT_EQ(*second.table("reference").find("kl_largest"), Value(0.0));
  EXPECT_EQ(*second.table("reference").find("top_agreement"), Value(1.0));
  comparing = {"--window", "10", "--reference-logits", path("logits.npy")};
  EXPECT_THAT(run(comparing).errors, HasSubstr("has logits of 27 tokens, expected 63"));
  EXPECT_THAT(run(keeping).errors, HasSubstr("logits.npy")) << "exists";
}

TEST_F(PerplexityCommand, ComparesWithANetwork) {
  const ProgramResult result = run({"--window", "35", "--reference", path("network.mz")});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("KL divergence: mean 0,"));
  EXPECT_THAT(result.output, HasSubstr("100.0000 % agree; 0.0000 % of the answers changed"));
}

TEST_F(PerplexityCommand, ComparesAFormatOfKeysAndValuesWithNone) {
  const ProgramResult result =
      run({"--window", "35", "--reference", path("network.mz"), "--cache-format", "int2"});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.output, HasSubstr("KL divergence: mean "));
  EXPECT_THAT(result.output, testing::Not(HasSubstr("KL divergence: mean 0,")));
}

TEST_F(PerplexityCommand, MeasuresFormatsOneAfterAnother) {
  const std::vector<std::string> windows = {"--window", "20", "--windows", "2"};
  std::vector<std::string> args = windows;
  args.insert(args.end(), {"--formats", "fp16", "int8", "block_fp:width=3/fp8_e4m3fn"});
  const Table found = results(args);
  const List& rows = *found.find("formats")->get_if<List>();
  ASSERT_EQ(rows.size(), 4U);
  const auto cell = [&](size_t row, const char* key) { return *rows[row].get_if<Table>()->find(key); };
  const double plain = *results(windows).find("perplexity")->get_if<double>();
  const auto perplexity = [&](size_t row) { return *cell(row, "perplexity").get_if<double>(); };
  EXPECT_EQ(cell(0, "format"), Value("float"));
  EXPECT_NEAR(perplexity(0), plain, 1e-4);
  EXPECT_EQ(cell(3, "format"), Value("block_fp:width=3/fp8_e4m3fn"));
  EXPECT_NEAR(perplexity(1), plain, 0.01 * plain);
  EXPECT_GT(std::abs(perplexity(3) - plain), std::abs(perplexity(1) - plain));
  args = windows;
  args.insert(args.end(), {"--formats", "int9000"});
  EXPECT_THAT(run(args).errors, HasSubstr("--formats"));
  args.insert(args.end(), {"--reference", path("network.mz")});
  EXPECT_THAT(run(args).errors, HasSubstr("takes the place of a reference"));
}

TEST_F(PerplexityCommand, AnswersQuestions) {
  write_file(path("task.jsonl"),
             R"({"context_ids": [5, 9], "choice_ids": [[7, 3], [8], [1, 2, 3]], "answer": 1}

{"context_ids": [4], "choice_ids": [[7], [8]], "answer": 0}
)");
  const std::vector<Question> questions = read_questions(path("task.jsonl"), nullptr);
  ASSERT_EQ(questions.size(), 2U);
  EXPECT_EQ(questions[0].choices[2].tokens, (std::vector<int64_t>{5, 9, 1, 2, 3}));
  EXPECT_EQ(questions[0].choices[2].begin, 2);
  EXPECT_EQ(questions[0].answer, 1);
  const Decoder decoder(network());
  const AnswerScores expected = answer_questions(logits_of(decoder), {}, questions);
  const ProgramResult result = run_program({"perplexity", path("network.mz"), "--task", path("task.jsonl"),
                                            "--reference", path("network.mz"), "--json"});
  EXPECT_EQ(result.status, 0) << result.errors;
  Value value = parse_json(result.output, "task");
  Table& task = value.get_if<Table>()->table("task");
  EXPECT_EQ(*task.find("questions"), Value(2));
  EXPECT_EQ(*task.find("accuracy"), Value(expected.accuracy()));
  EXPECT_EQ(*task.table("reference").find("agreement"), Value(1.0));
  EXPECT_EQ(*task.table("reference").find("changed_answers"), Value(0.0));
}

TEST_F(PerplexityCommand, RefusesQuestionsThatAreNone) {
  const auto refused = [&](const std::string& line, const std::string& message) {
    write_file(path("task.jsonl"), "\n" + line);
    const ProgramResult result =
        run_program({"perplexity", path("network.mz"), "--task", path("task.jsonl")});
    EXPECT_EQ(result.status, 1) << line;
    EXPECT_THAT(result.errors, HasSubstr(message));
  };
  refused("", "task.jsonl: has no questions");
  refused("[]", "task.jsonl:2: got a list, expected an object");
  refused(R"({"context": "a", "choices": ["b", "c"], "answer": 0})",
          "task.jsonl:2: texts, and the model has no");
  refused(R"({"context_ids": [1], "choice_ids": [[2], [3]], "answer": 2})", "answer is 2, expected 0 to 1");
  refused(R"({"context_ids": [1], "choice_ids": [[2], []], "answer": 0})", "a choice has no tokens");
  refused(R"({"context_ids": [], "choice_ids": [[2], [3]], "answer": 0})", "the context has no tokens");
  refused(R"({"context_ids": [1], "choice_ids": [[2]], "answer": 0})", "1 choices, expected at least 2");
  refused(R"({"context_ids": [1], "choice_ids": [[2], [3]]})", "there is no key \"answer\"");
  refused(R"({"context_ids": [1], "choice_ids": [[2], ["x"]], "answer": 0})", "expected integers");
}

TEST_F(PerplexityCommand, RefusesWhatCannotBe) {
  const auto refused = [&](const std::vector<std::string>& args, int status, const std::string& message) {
    const ProgramResult result = run(args);
    EXPECT_EQ(result.status, status) << message;
    EXPECT_THAT(result.errors, HasSubstr(message));
  };
  refused({"--text", path("ids.npy")}, 2, "needs one of --text FILE, --ids FILE.npy and --task");
  refused({"--window", "1"}, 2, "--window: got 1, expected at least 2");
  refused({"--window", "8", "--stride", "9"}, 2, "--stride: got 9, expected at most the window, 8");
  refused({"--protocol", "halves", "--stride", "9"}, 2, "--stride: windows of the protocol halves");
  refused({"--protocol", "halfs"}, 2, "unknown protocol \"halfs\" (known: windows, halves)");
  refused({"--formats", "int8", "--cache-format", "int8"}, 2, "exclude each other");
  refused({"--cache-format", "nvfp4"}, 1, "--cache-format: got \"nvfp4\"");
  refused({"--window", "71"}, 1, "the text has 70 tokens");
  const ProgramResult no_tokenizer =
      run_program({"perplexity", path("network.mz"), "--text", path("ids.npy")});
  EXPECT_THAT(no_tokenizer.errors, HasSubstr("no tokenizer comes with it"));
  write_npy(path("floats.npy"), Tensor(DType::kFloat32, {20}));
  const ProgramResult floats = run_program({"perplexity", path("network.mz"), "--ids", path("floats.npy")});
  EXPECT_THAT(floats.errors, HasSubstr("expected integers"));
}

}  // namespace
}  // namespace detent

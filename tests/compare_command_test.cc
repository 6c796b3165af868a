// `detent compare` as its users run it.

#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/value.h"
#include "detent/files/file.h"
#include "detent/files/json.h"
#include "program_in_folder_for_test.h"

namespace detent {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class CompareCommand : public TrainedDigits {
 protected:
  static int compare(const std::string& options, const std::string& project) {
    return run(
        fmt::format("detent compare digits_cnn digits --load digits.pt --num-samples 64 --project {} {}",
                    project, options));
  }
  static Table report(const std::string& project) {
    const fs::path file = folder() / "detent_output" / project / "software/compare/comparison.json";
    return *read_json(file).get_if<Table>();
  }
  static const List& rows(const Table& report) { return *report.find("networks")->get_if<List>(); }
  static const Value& at(const Value& row, const char* key) {
    const Value* value = row.get_if<Table>()->find(key);
    return value == nullptr ? none() : *value;
  }
  static const Value& none() {
    static const Value kNone;
    return kNone;
  }
};

TEST_F(CompareCommand, RowsAreWhatTheirCommandsMake) {
  ASSERT_EQ(compare("--formats int8,int3,fp8_e4m3fn/fp8_e4m3fn,log:width=4 "
                    "--methods none,scale_search+gptq+bias_correction --report page.html",
                    "rows"),
            0)
      << log();
  EXPECT_THAT(
      log(), AllOf(HasSubstr("KL divergence"), HasSubstr("float32"), HasSubstr("the front, smallest first")));
  EXPECT_THAT(read_file(folder() / "page.html"), HasSubstr("int3/uint8 none"));
  const Table found = report("rows");
  ASSERT_EQ(rows(found).size(), 8U);
  for (const Value& row : rows(found)) {
    const std::string command = *at(row, "command").get_if<std::string>();
    ASSERT_EQ(run(command + " --json"), 0) << command << "\n" << log();
    std::string text = log();
    text = text.substr(text.find("\n{") == std::string::npos ? text.find('{') : text.find("\n{") + 1);
    const Value result = parse_json(text, command);
    const Table& made = *result.get_if<Table>();
    const List& accuracy = *made.find("accuracy")->get_if<List>();
    EXPECT_EQ(at(accuracy[1], "correct"), at(row, "correct")) << command;
    const Table& sizes = *made.find("sizes")->get_if<Table>();
    EXPECT_EQ(at(*sizes.find("quantized"), "weight_bytes"), at(row, "weight_bytes")) << command;
  }
}

TEST_F(CompareCommand, GoesOnWithMoreFormatsAndMethods) {
  ASSERT_EQ(compare("--formats int4 --methods none", "grown"), 0) << log();
  const Table first = report("grown");
  EXPECT_NE(compare("--formats int4 --methods none", "grown"), 0);
  EXPECT_THAT(log(), AllOf(HasSubstr("holds a comparison"), HasSubstr("--resume")));
  ASSERT_EQ(compare("--formats int4,int8 --methods none,scale_search --resume", "grown"), 0) << log();
  const Table grown = report("grown");
  ASSERT_EQ(rows(grown).size(), 4U);
  EXPECT_EQ(at(rows(grown)[0], "latency_ms"), at(rows(first)[0], "latency_ms")) << "measured again";
  EXPECT_NE(compare("--formats int4 --methods none --resume --calibrator mse", "grown"), 0);
  EXPECT_THAT(log(), HasSubstr("other settings"));
}

TEST_F(CompareCommand, PrintsNothingButJson) {
  ASSERT_EQ(run("bash -c 'detent compare digits_cnn digits --load digits.pt --num-samples 64 --project json "
                "--formats int4 --methods none --json > out.json'"),
            0)
      << log();
  const Value printed = read_json(folder() / "out.json");
  EXPECT_EQ(at(printed, "comparison"), Value(report("json")));
}

TEST_F(CompareCommand, SaysWhatCannotBeAndGoesOn) {
  ASSERT_EQ(compare("--formats nvfp4,int4 --methods none,signround", "obstacles"), 0) << log();
  EXPECT_THAT(log(), AllOf(HasSubstr("not possible"),
                           HasSubstr("nvfp4: the scale of a block follows its largest element")));
  const Table found = report("obstacles");
  ASSERT_EQ(rows(found).size(), 4U);
  EXPECT_TRUE(at(rows(found)[1], "obstacle").is<std::string>());
  EXPECT_TRUE(at(rows(found)[3], "accuracy").is<double>());
}

TEST_F(CompareCommand, LeavesWhatThereIsNoTimeFor) {
  ASSERT_EQ(compare("--formats int4,int8 --methods none --time 1ms", "late"), 0) << log();
  EXPECT_THAT(log(), HasSubstr("2 networks were not measured: go on with --resume"));
  ASSERT_EQ(compare("--formats int4,int8 --methods none --resume", "late"), 0) << log();
  EXPECT_THAT(log(), Not(HasSubstr("not measured")));
  EXPECT_EQ(rows(report("late")).size(), 2U);
}

TEST_F(CompareCommand, RefusesBeforeAnyWork) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"--formats int99", "--formats"},
      {"--formats int4/int8/int8", "expected WEIGHTS or WEIGHTS/ACTIVATIONS"},
      {"--formats uint4", "expected a signed type"},
      {"--methods gptk", "gptq"},
      {"--methods gptq+gptq", "each once"},
      {"--methods gptq+adaround", "both choose the weights"},
      {"--methods static_quantize", "passes that change the network"},
      {"--calibrator best", "--calibrator"},
  };
  for (const auto& [options, message] : cases) {
    EXPECT_EQ(compare(options, "refused"), 2) << options << "\n" << log();
    EXPECT_THAT(log(), HasSubstr(message)) << options;
  }
  EXPECT_FALSE(fs::exists(folder() / "detent_output/refused"));
}

}  // namespace
}  // namespace detent

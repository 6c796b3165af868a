#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "detent/cli/program_for_test.h"
#include "detent/files/file.h"
#include "detent/files/temporary_file_test.h"

namespace detent {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kStatistics = R"([fc.software.args.weight.stat.range_min_max]
min = -2.0
max = 6.0
count = 8
nan_count = 3
[fc.software.args.weight.stat.variance_precise]
mean = 0.5
variance = 2.25
count = 8
[fc.software.args.weight.stat.zero_share]
zero_share = 0.125
count = 8
[fc.software.args.weight.stat.histogram]
edges = [-2.0, 0.0, 2.0, 4.0, 6.0]
counts = [1, 8, 0, 4]
[fc.software.results.data_out_0.stat.range_min_max]
min = [-1.0, -3.0]
max = [1.0, 4.0]
count = 5
)";

class StatsCommand : public testing::Test {
 protected:
  std::string write(const char* name, const std::string& text) {
    const std::string path = (folder_.get().parent_path() / name).string();
    write_file(path, text);
    return path;
  }

 private:
  TemporaryPath folder_{"stats"};
};

TEST_F(StatsCommand, ShowsRangesAndHistograms) {
  const ProgramResult result = run_program({"stats", "show", write("a.toml", kStatistics)});
  EXPECT_EQ(result.status, 0) << result.errors;
  // The bins' middles lie at -1, 0 (the bins that touch it) and 5.
  EXPECT_THAT(result.output,
              HasSubstr("| fc   | weight     |          |  -2 |   6 |  0.5 |       1.5 | 12.5 % | 3 NaN"));
  EXPECT_THAT(result.output, HasSubstr("█"));
  EXPECT_THAT(result.output, HasSubstr("| fc   | data_out_0 |        2 |  -3 |   4 |"));
}

TEST_F(StatsCommand, StatisticsOfOtherDimensionsHaveRowsOfTheirOwn) {
  std::string text = kStatistics;
  const std::string whole = "mean = 0.5\nvariance = 2.25\n";
  text.replace(text.find(whole), whole.size(), "mean = [0.5, 0.25]\nvariance = [2.25, 1.0]\n");
  const ProgramResult result = run_program({"stats", "show", write("a.toml", text)});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.output,
              HasSubstr("| fc   | weight     |          |  -2 |   6 |      |           | 12.5 % | 3 NaN"));
  EXPECT_THAT(result.output, HasSubstr("| fc   | weight     |        2 |     |     |"));
}

TEST_F(StatsCommand, ListsWhatDiffers) {
  const std::string first = write("a.toml", kStatistics);
  std::string changed = kStatistics;
  changed.replace(changed.find("max = 6.0"), 9, "max = 6.5");
  changed.replace(changed.find("[-1.0, -3.0]"), 12, "[-1.0, -3.5]");
  const ProgramResult result = run_program({"stats", "diff", first, write("b.toml", changed)});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("range_min_max.max"), HasSubstr("0.5"), HasSubstr("list of 2"),
                    HasSubstr("2 results differ, 12 are equal"), Not(HasSubstr("zero_share"))));
  EXPECT_THAT(run_program({"stats", "diff", first, first}).output,
              HasSubstr("0 results differ, 14 are equal"));
}

TEST_F(StatsCommand, ListsOperandsThatOnlyOneFileHas) {
  const std::string more = std::string(kStatistics) + "[gc.software.args.weight.stat.absmax]\nabsmax = 1.0\n";
  const ProgramResult result =
      run_program({"stats", "diff", write("a.toml", kStatistics), write("b.toml", more)});
  EXPECT_THAT(result.output, AllOf(HasSubstr("| gc   | weight  | absmax.absmax | absent"), HasSubstr("1.0")));
}

TEST_F(StatsCommand, RefusesWhatItCannotRead) {
  const auto expect_error = [](const std::vector<std::string>& args, int status, const char* message) {
    const ProgramResult result = run_program(args);
    EXPECT_EQ(result.status, status);
    EXPECT_THAT(result.errors, HasSubstr(message));
  };
  const std::string empty = write("empty.toml", "[fc.common]\nmase_op = \"linear\"\n");
  expect_error({"stats", "show", empty}, 1, "no node has statistics");
  expect_error({"stats", "shw", empty}, 2, "did you mean \"show\"");
  expect_error({"stats", "diff", empty}, 2, "needs two files");
  expect_error({"stats", "show", empty, empty}, 2, "unexpected argument");
  expect_error({"stats", "show", "missing.toml"}, 1, "missing.toml");
  const std::string wrong = write("wrong.toml", "[fc.software.args.weight]\nstat = 3\n");
  expect_error({"stats", "show", wrong}, 1, "wrong.toml: node \"fc\", software.args.weight: \"stat\": got 3");
}

}  // namespace
}  // namespace detent

#include "detent/training/metrics_log.h"

#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/files/file.h"
#include "detent/files/json.h"

namespace detent {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

class MetricsLogTest : public testing::Test {
 protected:
  ~MetricsLogTest() override { fs::remove_all(folder_); }

  std::vector<Table> lines() const {
    std::vector<Table> result;
    const std::string text = read_file(folder_ / "metrics.jsonl");
    for (size_t at = 0; at < text.size();) {
      const size_t end = text.find('\n', at);
      const Value line = parse_json(text.substr(at, end - at), "line");
      result.push_back(*line.get_if<Table>());
      at = end + 1;
    }
    return result;
  }

  fs::path folder_ = fs::temp_directory_path() / fmt::format("detent_metrics_{}", getpid());
};

TEST_F(MetricsLogTest, WritesALineAReport) {
  Table sizes;
  {
    MetricsLog log(folder_ / "metrics.jsonl", folder_ / "events.tfevents", {});
    log.write(StepReport{.epoch = 1, .global_step = 50, .learning_rate = 0.5, .training = {5, 6, 10}});
    sizes = log.sizes();
    log.write(EpochReport{.epoch = 1, .global_step = 60, .training = {5, 6, 10}, .validation = {10, 9, 10}});
  }
  ASSERT_EQ(lines().size(), 3U);
  EXPECT_THAT(lines()[0].keys(), ElementsAre("split", "step", "epoch", "loss", "accuracy", "learning_rate",
                                             "samples_per_second", "time"));
  EXPECT_EQ(*lines()[0].find("loss"), Value(0.5));
  EXPECT_EQ(*lines()[1].find("split"), Value("train_epoch"));
  EXPECT_EQ(*lines()[2].find("split"), Value("validation"));
  EXPECT_EQ(*lines()[2].find("accuracy"), Value(0.9));
  EXPECT_EQ(*lines()[2].find("step"), Value(60));

  // A training that is resumed forgets what was written after it was saved.
  MetricsLog log(folder_ / "metrics.jsonl", folder_ / "events.tfevents", sizes);
  EXPECT_EQ(lines().size(), 1U);
  EXPECT_EQ(log.sizes(), sizes);
  EXPECT_EQ(static_cast<int64_t>(fs::file_size(folder_ / "events.tfevents")),
            *sizes.find("events")->get_if<int64_t>());
}

}  // namespace
}  // namespace detent

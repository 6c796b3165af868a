// The tour of the README, with the networks that the program has.

#include <unistd.h>

#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/files/file.h"
#include "program_in_folder_for_test.h"

namespace detent {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class Quickstart : public testing::Test {
 protected:
  Quickstart() : folder_(fs::temp_directory_path() / fmt::format("detent_quickstart_{}", getpid())) {
    fs::create_directories(folder_);
  }
  ~Quickstart() override { fs::remove_all(folder_); }
  int run(const std::string& command) const { return run_in(folder_, command); }
  std::string log() const { return read_file(folder_ / "log.txt"); }

  fs::path folder_;
};

TEST_F(Quickstart, NeedsNoTraining) {
  ASSERT_EQ(run("detent quickstart --no-training"), 0) << log();
  EXPECT_THAT(log(),
              AllOf(ContainsRegex("float32 +\\| +32.00 \\| 39656 \\| 9[89]\\.[0-9] "),
                    ContainsRegex("affine, W8 per channel, A8 +\\| +8.76 \\| 10850 \\| 9[89]\\.[0-9] "),
                    ContainsRegex("binary W per channel, fixed A8 +\\| +1.92 \\| +2380 \\|"),
                    Not(HasSubstr("fine-tuned"))));
  for (const char* right : {"(358/360)", "(357/360)", "(353/359)", "(355/359)", "(354/359)"})
    EXPECT_THAT(log(), HasSubstr(right)) << "each of the networks, on the fifth that it was not trained on";
  ASSERT_EQ(run("detent test digits_cnn digits --load detent_quickstart/float.pt"), 0) << log();
  EXPECT_THAT(log(), HasSubstr("(358/360)"));
  ASSERT_EQ(run("detent test --dataset digits --load detent_quickstart/nvfp4/graph_module.mz"), 0) << log();
}

TEST_F(Quickstart, WritesOverNothing) {
  ASSERT_EQ(run("detent quickstart --no-training"), 0) << log();
  write_file(folder_ / "detent_quickstart/mine.txt", "kept");
  ASSERT_EQ(run("detent quickstart --no-training --overwrite"), 0) << log();
  EXPECT_EQ(read_file(folder_ / "detent_quickstart/mine.txt"), "kept");
  EXPECT_EQ(run("detent quickstart --no-training --save-networks x.f32"), 2);
  EXPECT_THAT(log(), HasSubstr("--save-networks: no network is trained"));
}

}  // namespace
}  // namespace detent

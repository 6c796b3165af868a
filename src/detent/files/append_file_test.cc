#include "detent/files/append_file.h"

#include <sys/resource.h>
#include <unistd.h>

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/error.h"
#include "detent/files/file.h"

namespace detent {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

class AppendFileTest : public testing::Test {
 protected:
  ~AppendFileTest() override { fs::remove_all(folder_); }

  fs::path folder_ = fs::temp_directory_path() / fmt::format("detent_append_test_{}", getpid());
  fs::path path_ = folder_ / "a" / "log.txt";
};

TEST_F(AppendFileTest, KeepsWhatItIsToldTo) {
  {
    AppendFile file(path_, 100);
    file.append("first\n");
    file.append("second\n");
    file.flush();
    EXPECT_EQ(file.size(), 13U);
    EXPECT_EQ(read_file(path_), "first\nsecond\n");
  }
  AppendFile file(path_, 6);
  EXPECT_EQ(file.size(), 6U);
  file.append("other\n");
  EXPECT_EQ(read_file(path_), "first\nother\n");
}

TEST_F(AppendFileTest, ARecordThatDoesNotFitLeavesNothing) {
  AppendFile file(path_, 0);
  file.append("fits\n");
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{10, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_THAT([&] { file.append("much too long\n"); },
              ThrowsMessage<Error>(AllOf(HasSubstr("cannot write"), HasSubstr("log.txt"))));
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(read_file(path_), "fits\n");
  file.append("next\n");
  EXPECT_EQ(read_file(path_), "fits\nnext\n");
}

TEST_F(AppendFileTest, AppearsWithItsFirstRecord) {
  AppendFile file(path_, 100);
  file.flush();
  EXPECT_FALSE(fs::exists(folder_));
  file.append("first\n");
  EXPECT_EQ(read_file(path_), "first\n");
}

TEST_F(AppendFileTest, SaysWhatCannotBeOpened) {
  write_file(folder_ / "a", "a file");
  EXPECT_THAT([&] { AppendFile(path_, 0).append("first"); },
              ThrowsMessage<Error>(HasSubstr((folder_ / "a").string())));
}

}  // namespace
}  // namespace detent

#include "detent/files/output_folder.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/error.h"
#include "detent/core/error_of_for_test.h"
#include "detent/files/file.h"

namespace detent {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

class FolderLockTest : public testing::Test {
 protected:
  ~FolderLockTest() override { fs::remove_all(base_); }

  std::string error_of_locking(const fs::path& folder) {
    return detent::error_of([&] { const FolderLock lock(folder, "detent test", warn_); });
  }

  fs::path base_ = fs::temp_directory_path() / fmt::format("detent_folder_lock_test_{}", getpid());
  fs::path folder_ = base_ / "software" / "quantize";
  std::string warned_;
  std::function<void(const std::string&)> warn_ = [this](const std::string& text) { warned_ += text; };
};

TEST_F(FolderLockTest, OneHoldsItAndTheOthersHearOfHim) {
  {
    const FolderLock lock(folder_, "detent quantize\n\x1b[31m", warn_);
    const FolderLock of_another_folder(base_ / "software" / "transform", "detent transform", warn_);
    const std::string message = error_of_locking(folder_);
    EXPECT_THAT(message,
                AllOf(HasSubstr(folder_.string()), HasSubstr("is being written by detent quantize")));
    EXPECT_THAT(error_of_locking(folder_ / ""), HasSubstr("is being written by"));
    EXPECT_THAT(error_of_locking(base_ / "software" / "x" / ".." / "quantize"),
                HasSubstr("is being written by"));
  }
  EXPECT_THAT(error_of_locking(folder_), IsEmpty());
  EXPECT_TRUE(fs::is_empty(base_ / "software"));
  EXPECT_THAT(warned_, IsEmpty());
}

TEST_F(FolderLockTest, SaysWhichProcessSinceWhen) {
  const FolderLock lock(folder_, "detent train", warn_);
  EXPECT_THAT(error_of_locking(folder_),
              testing::ContainsRegex(fmt::format(
                  "detent train \\(process {} on host .* since 20[0-9-]+ [0-9:]+ UTC\\)", getpid())));
}

TEST_F(FolderLockTest, EndsWithAProcessThatIsKilled) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const FolderLock lock(folder_, "detent train", warn_);
    if (::write(ready[1], "x", 1) == 1) pause();
    _exit(1);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_THAT(error_of_locking(folder_), HasSubstr(fmt::format("process {}", child)));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_THAT(error_of_locking(folder_), IsEmpty());
  EXPECT_TRUE(fs::is_empty(base_ / "software"));
}

TEST_F(FolderLockTest, WarnsWhereTheFileSystemHasNoLocks) {
  const FolderLock::Locker none = [](int, int) {
    errno = ENOLCK;
    return -1;
  };
  const FolderLock lock(folder_, "detent train", warn_, none);
  EXPECT_THAT(warned_, HasSubstr("cannot be locked (No locks available): two commands"));
}

}  // namespace
}  // namespace detent

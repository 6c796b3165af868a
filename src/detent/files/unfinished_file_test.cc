#include "detent/files/unfinished_file.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/default_signals_for_test.h"
#include "detent/core/error.h"
#include "detent/core/sanitizers_for_test.h"
#include "detent/files/append_file.h"
#include "detent/files/file.h"

namespace detent {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::ThrowsMessage;

class UnfinishedFileTest : public testing::Test {
 protected:
  UnfinishedFileTest() { fs::create_directories(folder_); }
  ~UnfinishedFileTest() override { fs::remove_all(folder_); }

  /// A process that dies while it writes `path`.
  static void write_and_die(const fs::path& path, int signal = SIGKILL) {
    const pid_t child = fork();
    if (child == 0) {
      AtomicFile file(path);
      file.write("half");
      raise(signal);
    }
    waitpid(child, nullptr, 0);
  }

  size_t files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  static mode_t mode_of(const fs::path& path) {
    struct stat status {};
    EXPECT_EQ(stat(path.c_str(), &status), 0);
    return status.st_mode & 0777;
  }
  void user_file(const std::string& name) const { std::ofstream(folder_ / name) << name; }

  const DefaultSignals default_signals_;
  // Another one in each test: a process looks through a folder once.
  fs::path folder_ =
      fs::temp_directory_path() /
      fmt::format("detent_{}_{}", testing::UnitTest::GetInstance()->current_test_info()->name(), getpid());
};

TEST_F(UnfinishedFileTest, LeftoversOfTheDeadAreRemovedAndNothingElse) {
  const std::vector<std::string> of_the_user = {"a.ckpt",
                                                "a.ckpt.backup",
                                                "a.ckpt.x9Zk2Q",
                                                "a.ckpt.tar.gz",
                                                ".detent-tmp-",
                                                ".detent-tmp-backup",
                                                ".detent-tmp-0123456789abcdeX",
                                                ".detent-tmp-0123456789abcdef0"};
  for (const std::string& name : of_the_user) user_file(name);
  fs::create_directories(folder_ / ".detent-tmp-0123456789abcdef");
  write_and_die(folder_ / "a.ckpt");
  write_and_die(folder_ / "b.ckpt");
  EXPECT_EQ(files(), of_the_user.size() + 2);  // the second has removed what the first had left
  AtomicFile living(folder_ / "a.ckpt");
  living.write("new");
  write_and_die(folder_ / "c.ckpt");
  remove_unfinished_files(folder_);
  remove_unfinished_files(folder_ / "no_folder");
  EXPECT_EQ(files(), of_the_user.size() + 2);
  for (const std::string& name : of_the_user) EXPECT_EQ(read_file(folder_ / name), name);
  living.commit();
  EXPECT_EQ(read_file(folder_ / "a.ckpt"), "new");
}

TEST_F(UnfinishedFileTest, TheNextWriterRemovesLeftovers) {
  write_and_die(folder_ / "a");
  EXPECT_EQ(files(), 1U);
  write_file(folder_ / "b", "text");
  EXPECT_EQ(files(), 1U);
  EXPECT_EQ(read_file(folder_ / "b"), "text");
}

TEST_F(UnfinishedFileTest, WritersAreSafeFromThoseWhoRemove) {
  std::atomic<bool> done = false;
  std::thread remover([&] {
    while (!done) remove_unfinished_files(folder_);
  });
  for (int i = 0; i < 300; ++i) {
    UnfinishedFile file(folder_ / "a");
    EXPECT_TRUE(file.take_name());
  }
  done = true;
  remover.join();
  EXPECT_EQ(files(), 1U);
}

TEST_F(UnfinishedFileTest, SignalsLeaveNothing) {
  DETENT_SKIP_WHERE_SIGNALS_ARE_DELAYED();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const pid_t child = fork();
    if (child == 0) {
      const DefaultSignals default_signals;
      handle_signals_for_open_files();
      AtomicFile first(folder_ / "a");
      AtomicFile second(folder_ / "b");
      { const AtomicFile third(folder_ / "c"); }
      raise(signal);
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << status;
    EXPECT_EQ(files(), 0U);
  }
}

TEST_F(UnfinishedFileTest, TakesLongNames) {
  const fs::path path = folder_ / std::string(250, 'n');
  write_file(path, "text");
  EXPECT_EQ(read_file(path), "text");
}

TEST_F(UnfinishedFileTest, KeepsModesAndObeysTheUmask) {
  const mode_t mask = umask(027);
  write_file(folder_ / "new", "1");
  user_file("private");
  fs::permissions(folder_ / "private", fs::perms(0600));
  user_file("open");
  fs::permissions(folder_ / "open", fs::perms(0666));
  user_file("fixed");
  fs::permissions(folder_ / "fixed", fs::perms(0444));
  for (const char* name : {"private", "open", "fixed"}) write_file(folder_ / name, "2");
  EXPECT_EQ(umask(mask), 027U);
  EXPECT_EQ(mode_of(folder_ / "new"), 0640U);
  EXPECT_EQ(mode_of(folder_ / "private"), 0600U);
  EXPECT_EQ(mode_of(folder_ / "open"), 0666U);
  EXPECT_EQ(mode_of(folder_ / "fixed"), 0444U);
}

TEST_F(UnfinishedFileTest, AUsersLinkStandsForItsTarget) {
  fs::create_directories(folder_ / "far");
  user_file("far/file");
  fs::create_symlink("far/file", folder_ / "near");
  fs::create_symlink("near", folder_ / "nearer");
  fs::create_symlink("far/new", folder_ / "dangling");
  write_file(folder_ / "nearer", "through");
  write_file(folder_ / "dangling", "made");
  AppendFile(folder_ / "near", 7).append(" and on");
  EXPECT_EQ(read_file(folder_ / "far/file"), "through and on");
  EXPECT_EQ(read_file(folder_ / "far/new"), "made");
  for (const char* name : {"near", "nearer", "dangling"}) EXPECT_TRUE(fs::is_symlink(folder_ / name));
  fs::create_symlink("loop", folder_ / "loop");
  EXPECT_THAT([&] { write_file(folder_ / "loop", ""); }, ThrowsMessage<Error>(HasSubstr("symbolic links")));
}

TEST_F(UnfinishedFileTest, LinksOfOthersAreRefused) {
  user_file("file");
  fs::create_symlink("file", folder_ / "link");
  constexpr uid_t kSomeoneElse = 12345;
  if (lchown((folder_ / "link").c_str(), kSomeoneElse, kSomeoneElse) != 0) GTEST_SKIP() << "only root can";
  for (const auto& write : {+[](const fs::path& path) { write_file(path, "evil"); },
                            +[](const fs::path& path) { AppendFile(path, 0).append("evil"); }}) {
    EXPECT_THAT([&] { write(folder_ / "link"); },
                ThrowsMessage<Error>(HasSubstr("link is a symbolic link of another user")));
  }
  EXPECT_EQ(read_file(folder_ / "file"), "file");
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
}

TEST_F(UnfinishedFileTest, ReplacesRegularFilesOnly) {
  EXPECT_THAT([&] { write_file(folder_, ""); }, ThrowsMessage<Error>(HasSubstr("it is a folder")));
  EXPECT_THAT([] { write_file("/dev/null", ""); }, ThrowsMessage<Error>(HasSubstr("it is a device")));
  ASSERT_EQ(mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  EXPECT_THAT([&] { write_file(folder_ / "fifo", ""); }, ThrowsMessage<Error>(HasSubstr("it is a FIFO")));
  EXPECT_EQ(files(), 1U);
}

TEST_F(UnfinishedFileTest, NamelessFilesHaveNoName) {
  const int descriptor = create_nameless_file(folder_);
  ASSERT_GE(descriptor, 0);
  EXPECT_EQ(write(descriptor, "abc", 3), 3);
  EXPECT_EQ(files(), 0U);
  close(descriptor);
}

}  // namespace
}  // namespace detent

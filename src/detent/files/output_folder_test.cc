#include "detent/files/output_folder.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/default_signals_for_test.h"
#include "detent/core/error.h"
#include "detent/core/error_of_for_test.h"
#include "detent/core/sanitizers_for_test.h"
#include "detent/files/file.h"
#include "detent/files/file_roles.h"
#include "detent/files/open_files.h"

namespace detent {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;

class OutputFolderTest : public testing::Test {
 protected:
  OutputFolderTest() { fs::create_directories(base_); }
  ~OutputFolderTest() override { fs::remove_all(base_); }

  OutputFolder open() {
    return {folder_, overwrite_, [this](const std::string& text) { warned_ += text; }};
  }
  /// A result of some files that all hold `text`.
  void write_result(const std::string& text, int files) {
    OutputFolder outputs(folder_, overwrite_, [this](const std::string& warning) { warned_ += warning; });
    for (int i = 0; i < files; ++i) {
      write_file(outputs.staged(folder_ / (i % 2 == 0 ? "" : "sub") / std::to_string(i)), text);
    }
    outputs.commit();
  }
  /// Contents of the numbered files, and their number.
  std::pair<std::set<std::string>, int> result() const {
    std::set<std::string> texts;
    int files = 0;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder_)) {
      if (!entry.is_regular_file() || entry.path().filename().string().size() != 1) continue;
      texts.insert(read_file(entry.path()));
      ++files;
    }
    return {texts, files};
  }
  size_t names_in_base() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(base_), fs::directory_iterator()));
  }

  fs::path base_ = fs::temp_directory_path() / fmt::format("detent_output_folder_test_{}", getpid());
  fs::path folder_ = base_ / "quantize";
  bool overwrite_ = false;
  std::string warned_;
};

TEST_F(OutputFolderTest, AppearsAsAWholeAndReplacesAsAWhole) {
  write_result("a", 5);
  EXPECT_EQ(result(), std::pair(std::set<std::string>{"a"}, 5));
  write_result("b", 3);
  EXPECT_EQ(result(), std::pair(std::set<std::string>{"b"}, 3))
      << "the other files of the result before are gone";
  EXPECT_EQ(names_in_base(), 1U);
  EXPECT_THAT(warned_, IsEmpty());
}

TEST_F(OutputFolderTest, IsAsItWasWithoutACommit) {
  write_result("a", 4);
  {
    OutputFolder outputs = open();
    write_file(outputs.staged(folder_ / "0"), "b");
    EXPECT_EQ(read_file(outputs.readable(folder_ / "0")), "b");
    EXPECT_EQ(read_file(outputs.readable(folder_ / "2")), "a");
    EXPECT_EQ(read_file(folder_ / "0"), "a");
  }
  EXPECT_EQ(result(), std::pair(std::set<std::string>{"a"}, 4));
  EXPECT_EQ(names_in_base(), 1U);
}

TEST_F(OutputFolderTest, KeepsWhatTheUserPutThere) {
  write_result("a", 4);
  std::ofstream(folder_ / "notes.txt") << "mine";
  std::ofstream(folder_ / "sub" / "picture.png") << "mine too";
  fs::create_symlink("notes.txt", folder_ / "link");
  fs::permissions(folder_, fs::perms::owner_all);
  write_result("b", 1);
  EXPECT_EQ(read_file(folder_ / "notes.txt"), "mine");
  EXPECT_EQ(read_file(folder_ / "sub" / "picture.png"), "mine too");
  EXPECT_EQ(fs::read_symlink(folder_ / "link"), "notes.txt");
  EXPECT_EQ(fs::status(folder_).permissions(), fs::perms::owner_all);
  EXPECT_EQ(result(), std::pair(std::set<std::string>{"b"}, 1));
}

TEST_F(OutputFolderTest, WritesOverNothingOfTheUsersUnlessTold) {
  write_result("a", 2);
  std::ofstream(folder_ / "sub" / "3") << "mine";
  const auto write = [&] { write_result("b", 4); };
  EXPECT_THAT(error_of(write), HasSubstr("sub/3 exists, and is no part of an earlier result"));
  EXPECT_THAT(error_of([&] { open().check_names({"sub/3"}); }), HasSubstr("sub/3 exists"));
  {
    OutputFolder outputs = open();  // written into a folder of it, so that only the end tells
    write_file(outputs.staged(folder_ / "sub") / "3", "b");
    EXPECT_THAT(error_of([&] { outputs.commit(); }), HasSubstr("sub/3 exists"));
  }
  {
    OutputFolder outputs = open();
    outputs.staged(folder_ / "0");
    EXPECT_EQ(outputs.readable(folder_ / "sub" / "3"), folder_ / "sub" / "3") << "it may be read";
  }
  EXPECT_EQ(read_file(folder_ / "sub" / "3"), "mine");
  EXPECT_EQ(read_file(folder_ / "0"), "a");
  overwrite_ = true;
  write();
  EXPECT_EQ(result(), std::pair(std::set<std::string>{"b"}, 4));
}

TEST_F(OutputFolderTest, ReplacesNothingThatIsRead) {
  write_result("a", 2);
  FileRoles roles;
  const FileRoles::Use use(&roles);
  read_file(folder_ / "0");
  overwrite_ = true;
  EXPECT_THAT(error_of([&] { open(); }), HasSubstr("quantize/0 is read, and would be replaced"));
}

TEST_F(OutputFolderTest, NamesAreClaimedForFilesThatAreReplacedOneByOne) {
  fs::create_directories(folder_ / "points");
  EXPECT_THAT(error_of([&] {
                const ClaimedNames claimed(folder_, {"best", "points"}, false);
              }),
              HasSubstr("points exists, and is no part of an earlier result"));
  fs::remove(folder_ / "points");
  { const ClaimedNames released(folder_, {"best", "points"}, false); }
  EXPECT_TRUE(fs::is_empty(folder_)) << "nothing was written";
  {
    const ClaimedNames claimed(folder_, {"best", "points"}, false);
    fs::create_directories(folder_ / "points");
    write_file(folder_ / "points" / "1", "a");
  }
  { const ClaimedNames again(folder_, {"best", "points"}, false); }
  FileRoles roles;
  const FileRoles::Use use(&roles);
  check_names_not_read(folder_, {"best", "points"});
  read_file(folder_ / "points" / "1");
  EXPECT_THAT(error_of([&] {
                check_names_not_read(folder_, {"best", "points"});
              }),
              HasSubstr("points/1 is read"));
}

TEST_F(OutputFolderTest, LeavesNoTemporaryFolderWhenASignalEndsIt) {
  DETENT_SKIP_WHERE_SIGNALS_ARE_DELAYED();
  write_result("a", 6);
  std::ofstream(folder_ / "notes.txt") << "mine";
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    const pid_t child = fork();
    if (child == 0) {
      const DefaultSignals default_signals;
      handle_signals_for_open_files();
      OutputFolder outputs = open();
      for (int i = 0; i < 200; ++i)
        write_file(outputs.staged(folder_ / "deep" / "er" / std::to_string(i)), "b");
      AtomicFile unfinished(outputs.staged(folder_ / "half"));
      raise(signal);
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal);
    EXPECT_EQ(names_in_base(), 1U);
  }
  EXPECT_EQ(result(), std::pair(std::set<std::string>{"a"}, 6));
  EXPECT_EQ(read_file(folder_ / "notes.txt"), "mine");
}

TEST_F(OutputFolderTest, LeavesOtherPathsAndLinksToFoldersAlone) {
  OutputFolder outputs = open();
  EXPECT_EQ(outputs.staged("elsewhere.toml"), "elsewhere.toml");
  EXPECT_EQ(outputs.staged(base_ / "quantized" / "x"), base_ / "quantized" / "x");
  outputs.commit();
  EXPECT_FALSE(fs::exists(folder_));

  fs::create_directories(base_ / "disk");
  fs::create_directory_symlink("disk", folder_);
  write_result("a", 2);
  EXPECT_TRUE(fs::is_symlink(folder_));
  EXPECT_TRUE(fs::exists(base_ / "disk" / "0"));
}

TEST_F(OutputFolderTest, StagesAllFilesWhicheverLinksLeadToThem) {
  fs::create_directories(base_ / "disk");
  fs::create_directory_symlink("disk", base_ / "link");
  const fs::path folder = base_ / "link" / "quantize";
  OutputFolder outputs(folder, false, [](const std::string&) {});
  write_file(outputs.staged(folder / "0"), "a");
  write_file(outputs.staged(folder / "sub" / "1"), "a");
  write_file(outputs.staged(base_ / "disk" / "." / "quantize" / "2"), "a");
  EXPECT_EQ(outputs.staged(folder), outputs.staged(base_ / "disk" / "quantize" / ""));
  EXPECT_FALSE(fs::exists(folder)) << "before the commit";
  outputs.commit();
  EXPECT_EQ(names_in_base(), 2U);
  for (const char* name : {"0", "sub/1", "2"}) EXPECT_EQ(read_file(folder / name), "a") << name;
}

TEST_F(OutputFolderTest, RemovesWhatTheDeadHaveLeftInIt) {
  write_result("a", 4);
  const char* name = ".detent-tmp-0123456789abcdef";
  for (const fs::path& folder : {folder_, folder_ / "sub"}) std::ofstream(folder / name) << "half";
  write_result("b", 4);
  EXPECT_FALSE(fs::exists(folder_ / name));
  EXPECT_FALSE(fs::exists(folder_ / "sub" / name));
}

TEST_F(OutputFolderTest, AProcessThatIsKilledLeavesTheOldSetOrTheNewOne) {
  write_result("a", 6);
  std::mt19937 random(1);
  for (int kill_after = 0; kill_after < 60; ++kill_after) {
    const std::string before = *result().first.begin();
    const std::string other = before == "a" ? "b" : "a";
    const pid_t child = fork();
    if (child == 0) {
      write_result(other, other == "a" ? 6 : 4);
      _exit(0);
    }
    usleep(static_cast<useconds_t>(random() % 4000));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    const auto [texts, files] = result();
    ASSERT_EQ(texts.size(), 1U);
    ASSERT_EQ(files, *texts.begin() == "a" ? 6 : 4);
  }
  write_result("a", 6);
  EXPECT_EQ(names_in_base(), 1U) << "leftovers of the killed";
}

}  // namespace
}  // namespace detent

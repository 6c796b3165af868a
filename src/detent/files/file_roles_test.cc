#include "detent/files/file_roles.h"

#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/error.h"
#include "detent/core/error_of_for_test.h"
#include "detent/files/file.h"

namespace detent {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class FileRolesTest : public testing::Test {
 protected:
  FileRolesTest() {
    fs::create_directories(folder_ / "sub");
    write_file(folder_ / "input", "mine");
    fs::create_symlink("input", folder_ / "link");
    fs::create_hard_link(folder_ / "input", folder_ / "twin");
    fs::create_symlink("..", folder_ / "sub" / "up");
  }
  ~FileRolesTest() override { fs::remove_all(folder_); }

  std::string claim_error(const fs::path& path, bool overwrite = false) {
    return error_of([&] { claim_output(path, "-o", overwrite); });
  }

  fs::path folder_ = fs::temp_directory_path() / fmt::format("detent_file_roles_test_{}", getpid());
  /// The same file under other names.
  std::vector<fs::path> names_ = {folder_ / "input", folder_ / "link", folder_ / "twin",
                                  fs::relative(folder_ / "input"), folder_ / "sub" / "up" / "input"};
  FileRoles roles_;
  FileRoles::Use use_{&roles_};
};

TEST_F(FileRolesTest, WhatIsReadIsNotReplacedByAnyOfItsNames) {
  read_file(folder_ / "input");
  for (const fs::path& name : names_) {
    EXPECT_TRUE(roles_.is_read(name)) << name;
    for (const bool overwrite : {false, true})
      EXPECT_THAT(claim_error(name, overwrite), HasSubstr("is read, and would be replaced")) << name;
  }
  EXPECT_EQ(read_file(folder_ / "input"), "mine");
}

TEST_F(FileRolesTest, WhatWillBeReplacedIsNotReadByAnyOfItsNames) {
  claim_output(folder_ / "link", "-o", true);
  for (const fs::path& name : names_) {
    EXPECT_THAT(error_of([&] { read_file(name); }), HasSubstr("-o: ")) << name;
    EXPECT_THAT(error_of([&] { map_file(name); }), HasSubstr("is read, and would be replaced")) << name;
  }
  EXPECT_EQ(read_file(folder_ / "input", 100, ReadAs::kOwnResult), "mine");
}

TEST_F(FileRolesTest, WhatIsThereIsReplacedWhereTheUserSaysSo) {
  for (const fs::path& name : names_)
    EXPECT_THAT(claim_error(name), HasSubstr("exists: give another name, or replace it with --overwrite"));
  EXPECT_EQ(claim_error(folder_ / "input", true), "");
  write_file(folder_ / "input", "theirs");
  EXPECT_EQ(read_file(folder_ / "input"), "theirs") << "once it is written, it may be read";
  write_file(folder_ / "input", "theirs again");
  EXPECT_EQ(read_file(folder_ / "twin"), "mine") << "the other name keeps what it had";
}

TEST_F(FileRolesTest, AFileThatAppearsMeanwhileIsKept) {
  claim_output(folder_ / "new", "-o", false);
  AtomicFile file(folder_ / "new");
  file.write("result");
  const FileRoles::Use none(nullptr);
  write_file(folder_ / "new", "of another program");
  const FileRoles::Use again(&roles_);
  EXPECT_THAT(error_of([&] { file.commit(); }), HasSubstr("File exists"));
  EXPECT_EQ(read_file(folder_ / "new"), "of another program");
}

TEST_F(FileRolesTest, TwoResultsHaveTwoNames) {
  claim_output(folder_ / "new", "-o", false);
  EXPECT_THAT(error_of([&] { claim_output(folder_ / "sub" / ".." / "new", "--report", false); }),
              HasSubstr("--report: "));
}

/// Where the next file takes the number of one that is gone.
TEST_F(FileRolesTest, AFileThatIsGoneIsForgotten) {
  for (int i = 0; i < 50; ++i) {
    const fs::path input = folder_ / fmt::format("state{}", i);
    write_file(input, "state");
    read_file(input);
    fs::remove(input);
    write_file(folder_ / "result", std::to_string(i));
    EXPECT_FALSE(roles_.is_read(folder_ / "result")) << i;
  }
}

TEST_F(FileRolesTest, WhatCannotBeWrittenIsKnownBefore) {
  ASSERT_EQ(mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  EXPECT_THAT(claim_error(folder_ / "fifo", true), HasSubstr("it is a FIFO (named pipe)"));
  EXPECT_THAT(claim_error("/dev/null", true), HasSubstr("it is a device"));
  EXPECT_THAT(claim_error(folder_, true), HasSubstr("is a folder"));
  EXPECT_THAT(claim_error("/proc/detent.onnx"), HasSubstr("/proc"));
  EXPECT_THAT(claim_error(folder_ / "no" / "such" / "x"), HasSubstr("/no/such does not exist"));
  fs::create_symlink(folder_ / "none" / "x", folder_ / "dangling");
  EXPECT_THAT(claim_error(folder_ / "dangling"), HasSubstr("/none does not exist"));
  EXPECT_THAT(claim_error(folder_ / std::string(300, 'x')), HasSubstr("File name too long"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 6);
}

}  // namespace
}  // namespace detent

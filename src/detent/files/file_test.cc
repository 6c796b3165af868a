#include "detent/files/file.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <sys/resource.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/error.h"
#include "detent/core/error_of_for_test.h"

namespace detent {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class FileTest : public testing::Test {
 protected:
  ~FileTest() override { fs::remove_all(folder_); }

  size_t files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  fs::path folder_ = fs::temp_directory_path() / fmt::format("detent_file_test_{}", getpid());
};

TEST_F(FileTest, AppearsOnlyWhenCommitted) {
  const fs::path path = folder_ / "a" / "b.txt";
  {
    AtomicFile file(path);
    file.write("half");
    EXPECT_FALSE(fs::exists(path));
  }
  EXPECT_TRUE(fs::is_empty(folder_ / "a"));
  write_file(path, "whole");
  write_file(path, "again");
  EXPECT_EQ(read_file(path), "again");
  struct stat status {};
  stat(path.c_str(), &status);
  const mode_t mask = umask(0);
  umask(mask);
  EXPECT_EQ(status.st_mode & 0777, 0666 & ~mask);
}

TEST_F(FileTest, OverwritesWhatWasWritten) {
  AtomicFile file(folder_ / "a");
  file.write("size ---, data");
  file.overwrite(5, "014");
  file.write(".");
  file.commit();
  EXPECT_EQ(read_file(folder_ / "a"), "size 014, data.");
}

TEST_F(FileTest, RefusesInputsThatAreNoFiles) {
  fs::create_directories(folder_);
  ASSERT_EQ(mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  EXPECT_THAT(error_of([&] { read_file(folder_ / "fifo"); }),
              HasSubstr("it is a FIFO (named pipe), not a regular file"));
  EXPECT_THAT(error_of([&] { map_file(folder_ / "fifo"); }), HasSubstr("a FIFO (named pipe)"));
  EXPECT_THAT(error_of([&] { map_file("/dev/zero"); }), HasSubstr("it is a device"));
}

TEST_F(FileTest, TakesNamesAsLongAsTheFileSystemDoes) {
  for (const size_t length : {size_t{240}, size_t{250}, size_t{255}}) {
    const fs::path path = folder_ / std::string(length, 'n');
    write_file(path, "text");
    EXPECT_EQ(read_file(path), "text") << length;
    remove_unfinished_files(path);
    EXPECT_EQ(read_file(path), "text") << length;
  }
  EXPECT_EQ(files(), 3U);
}

TEST_F(FileTest, KeepsTheOldFileWhenTheDiskIsFull) {
  write_file(folder_ / "kept.txt", "old");
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{4096, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string message = error_of([&] { write_file(folder_ / "kept.txt", std::string(10000, 'x')); });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_THAT(message, HasSubstr("cannot write"));
  EXPECT_THAT(message, HasSubstr("kept.txt"));
  EXPECT_EQ(read_file(folder_ / "kept.txt"), "old");
  EXPECT_EQ(files(), 1U);
}

TEST_F(FileTest, NamesWhatCannotBeReadOrWritten) {
  EXPECT_THAT(error_of([&] { read_file(folder_ / "none"); }), HasSubstr("No such file"));
  EXPECT_THAT(error_of([&] { map_file(folder_ / "none"); }), HasSubstr("No such file"));
  fs::create_directories(folder_);
  EXPECT_THAT(error_of([&] { read_file(folder_); }), HasSubstr("not a regular file"));
  write_file(folder_ / "file", "12345");
  EXPECT_THAT(error_of([&] { read_file(folder_ / "file", 4); }), HasSubstr("has 5 bytes, at most 4"));
  EXPECT_THAT(error_of([&] { write_file(folder_ / "file" / "x", ""); }),
              HasSubstr("cannot create directory"));
}

TEST_F(FileTest, ReadsReleasedPagesAgain) {
  std::string text;
  for (int i = 0; text.size() < size_t{1} << 20; ++i) text += std::to_string(i);
  write_file(folder_ / "file", text);
  const auto mapped = map_file(folder_ / "file");
  const auto as_text = [](std::span<const std::byte> bytes) {
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  EXPECT_EQ(as_text(mapped->bytes()), text);
  release_pages(mapped->bytes());
  release_pages(mapped->bytes().subspan(5, 3));
  EXPECT_EQ(as_text(mapped->bytes()), text);
  std::string own = text;
  release_pages(std::as_bytes(std::span(own)));
  EXPECT_EQ(own, text) << "memory of no file stays as it is";
}

TEST_F(FileTest, MapsPrivately) {
  write_file(folder_ / "file", "abc");
  const auto mapped = map_file(folder_ / "file");
  ASSERT_EQ(mapped->bytes().size(), 3U);
  mapped->bytes()[0] = std::byte{'x'};
  EXPECT_EQ(read_file(folder_ / "file"), "abc");
  write_file(folder_ / "empty", "");
  EXPECT_EQ(map_file(folder_ / "empty")->bytes().size(), 0U);
}

}  // namespace
}  // namespace detent

#include "detent/files/open_files.h"

#include <unistd.h>

#include <csignal>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/error.h"
#include "detent/core/sanitizers_for_test.h"
#include "detent/files/file.h"

namespace detent {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class OpenFilesTest : public testing::Test {
 protected:
  OpenFilesTest() { write_file(path_, std::string(100'000, 'x')); }
  ~OpenFilesTest() override { fs::remove_all(folder_); }

  fs::path folder_ = fs::temp_directory_path() / fmt::format("detent_open_files_test_{}", getpid());
  fs::path path_ = folder_ / "input.bin";
};

TEST_F(OpenFilesTest, NamesAFileThatWasTruncatedWhileItWasRead) {
  const auto read_truncated = [&] {
    handle_signals_for_open_files();
    const auto before = map_file(path_);
    const auto mapped = map_file(path_);
    AtomicFile output(folder_ / "output");
    fs::resize_file(path_, 10);
    const volatile std::byte last = mapped->bytes().back();
    static_cast<void>(last);
  };
  EXPECT_EXIT(read_truncated(), testing::ExitedWithCode(1),
              "detent: error: .*/input.bin was truncated while it was read");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

TEST_F(OpenFilesTest, NamesItWhereTheSystemReadsItToo) {
  const auto mapped = map_file(path_);
  fs::resize_file(path_, 0);
  AtomicFile output(folder_ / "output");
  EXPECT_THAT([&] { output.write(mapped->bytes()); },
              testing::ThrowsMessage<Error>(HasSubstr("input.bin was truncated while it was read")));
}

TEST_F(OpenFilesTest, OtherBusErrorsStayWhatTheyAre) {
  DETENT_SKIP_UNDER_SANITIZERS();
  const auto fault = [] {
    handle_signals_for_open_files();
    raise(SIGBUS);
    raise(SIGBUS);
  };
  EXPECT_EXIT(fault(), testing::KilledBySignal(SIGBUS), "");
}

TEST_F(OpenFilesTest, KnowsWhereFilesAreMapped) {
  auto mapped = map_file(path_);
  const std::byte* begin = mapped->bytes().data();
  EXPECT_EQ(OpenFile::mapped_at(begin), path_.string());
  EXPECT_EQ(OpenFile::mapped_at(begin + 99'999), path_.string());
  EXPECT_EQ(OpenFile::mapped_at(&begin), "");
  mapped.reset();
  EXPECT_EQ(OpenFile::mapped_at(begin), "");
}

}  // namespace
}  // namespace detent

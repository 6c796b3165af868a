#include "detent/files/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/error.h"

namespace detent {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(OutputPath, IsWritableWhereAFolderIsOrCouldBeMade) {
  const std::string folder = testing::TempDir();
  EXPECT_NO_THROW(check_writable(folder + "/new.toml", "w"));
  EXPECT_NO_THROW(check_writable(folder + "/no/such/folder/new.toml", "w"));
  EXPECT_FALSE(std::filesystem::exists(folder + "/no"));
  EXPECT_NO_THROW(check_writable("new.toml", "w"));
}

TEST(OutputPath, IsRefusedWhereNoFileCanBe) {
  const std::string folder = testing::TempDir();
  write_file(folder + "/detent_plain_file", "");
  const auto refusal = [](const std::string& path) { return [path] { check_writable(path, "key"); }; };
  EXPECT_THAT(refusal(folder + "/detent_plain_file/x.toml"),
              ThrowsMessage<Error>(
                  AllOf(HasSubstr("key: cannot write"), HasSubstr("detent_plain_file is no folder"))));
  EXPECT_THAT(refusal(folder), ThrowsMessage<Error>(HasSubstr("expected")));
  EXPECT_THAT(refusal(""), ThrowsMessage<Error>(HasSubstr("expected the name of a file")));
  std::filesystem::remove(folder + "/detent_plain_file");
}

}  // namespace
}  // namespace detent

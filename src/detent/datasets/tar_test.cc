#include "detent/datasets/tar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/error.h"
#include "detent/datasets/tar_for_test.h"
#include "detent/files/gzip_for_test.h"
#include "detent/files/temporary_file_test.h"

namespace detent {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr uint64_t kMemberLimit = 10'000;

class Tar : public testing::Test {
 protected:
  /// "name: content" of each member.
  std::vector<std::string> members(const std::string& bytes) {
    path_.overwrite(bytes);
    TarReader reader(path_.get(), kMemberLimit);
    std::vector<std::string> result;
    TarMember member;
    while (reader.next(member)) {
      std::string content(member.size, '\0');
      EXPECT_EQ(reader.read(std::as_writable_bytes(std::span(content))), content.size());
      result.push_back(member.name + ": " + content);
    }
    return result;
  }
  void expect_error(const std::string& bytes, const char* text) {
    EXPECT_THAT([&] { members(bytes); }, ThrowsMessage<Error>(HasSubstr(text)));
  }

  TemporaryPath path_{"a.tar.gz"};
};

TEST_F(Tar, ReadsRegularFiles) {
  const std::string archive = tar_member("data/", "", '5') + tar_member("data/a.bin", "content of a") +
                              tar_member("./b", std::string(512, 'b')) + tar_member("c", "") + tar_end();
  for (const std::string& bytes : {archive, gzip_for_test(archive)}) {
    EXPECT_THAT(members(bytes),
                ElementsAre("data/a.bin: content of a", "./b: " + std::string(512, 'b'), "c: "));
  }
  path_.overwrite(archive);
  TarReader reader(path_.get(), kMemberLimit);
  TarMember member;
  for (const char* name : {"data/a.bin", "./b", "c"}) {  // without reading them
    ASSERT_TRUE(reader.next(member));
    EXPECT_EQ(member.name, name);
  }
  EXPECT_FALSE(reader.next(member));
}

TEST_F(Tar, RefusesWhatLeadsOut) {
  for (const char* name : {"../evil", "a/../../evil", "/etc/passwd", ".."}) {
    expect_error(tar_member(name, "x") + tar_end(), "leads out of the folder");
  }
  EXPECT_THAT(members(tar_member("a..b", "x") + tar_end()), ElementsAre("a..b: x"));
  for (const char type : {'1', '2', '3', '4', '6', 'x', 'L'}) {
    expect_error(tar_member("link", "", type) + tar_end(), "no regular file");
  }
}

TEST_F(Tar, RefusesBombsAndDamage) {
  expect_error(
      gzip_for_test(tar_member("a", std::string(6000, 'a')) + tar_member("b", std::string(6000, 'b'))),
      "with \"b\" of 6000 bytes it unpacks to more than expected");
  const std::string archive = tar_member("a", std::string(700, 'a')) + tar_end();
  for (const size_t size : {0U, 100U, 511U, 512U, 600U, 1100U, 1536U}) {
    expect_error(archive.substr(0, size), size == 0 ? "cut off" : "damaged");
  }
  std::string changed = archive;
  changed[0] = 'b';
  expect_error(changed, "wrong sum");
  changed = archive;
  changed[130] = '9';
  expect_error(changed, "damaged");
}

}  // namespace
}  // namespace detent

#include "detent/files/zip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/error.h"
#include "detent/files/temporary_file_test.h"

namespace detent {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::string text_of(const ZipReader& zip, const std::string& name) {
  const ZipReader::Entry* entry = zip.find(name);
  if (entry == nullptr) return "absent";
  const auto bytes = zip.read(*entry);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// zip64_from: 0 puts every number into the zip64 fields.
class Zip : public testing::TestWithParam<uint64_t> {
 protected:
  void write() {
    ZipWriter zip(path_.get(), GetParam());
    zip.add("a/data.pkl", "first");
    zip.add("a/data/0", std::string(1000, 'x'));
    zip.add("a/empty", "");
    zip.commit();
  }
  TemporaryPath path_{"archive.zip"};
};

INSTANTIATE_TEST_SUITE_P(Forms, Zip, testing::Values(0, 6, ZipWriter::kZip64From));

TEST_P(Zip, RoundTripsAligned) {
  write();
  const ZipReader zip(path_.get());
  ASSERT_EQ(zip.entries().size(), 3U);
  for (const auto& entry : zip.entries())
    EXPECT_EQ((zip.read(entry).data() - zip.file()->bytes().data()) % 64, 0) << entry.name;
  EXPECT_EQ(text_of(zip, "a/data.pkl"), "first");
  EXPECT_EQ(text_of(zip, "a/data/0"), std::string(1000, 'x'));
  EXPECT_EQ(text_of(zip, "a/empty"), "");
  EXPECT_EQ(zip.find("b"), nullptr);
}

TEST_P(Zip, RefusesEveryTruncation) {
  write();
  const std::string whole = read_file(path_.get());
  for (size_t size = 0; size < whole.size(); ++size) {
    path_.overwrite(whole.substr(0, size));
    EXPECT_THROW(ZipReader{path_.get()}, Error) << size;
  }
}

TEST_P(Zip, DetectsChangedData) {
  write();
  std::string whole = read_file(path_.get());
  whole[whole.find("xxx") + 5] = 'y';
  path_.overwrite(whole);
  const ZipReader zip(path_.get());
  EXPECT_EQ(text_of(zip, "a/data.pkl"), "first");
  EXPECT_THAT(
      [&] { text_of(zip, "a/data/0"); },
      ThrowsMessage<Error>(AllOf(HasSubstr(path_.get().string()), HasSubstr("\"a/data/0\" is damaged"))));
}

TEST_P(Zip, RefusesTwoEntriesOfOneName) {
  ZipWriter writer(path_.get(), GetParam());
  writer.add("a", "1");
  writer.add("a", "2");
  writer.commit();
  EXPECT_THAT([&] { ZipReader{path_.get()}; }, ThrowsMessage<Error>(HasSubstr("two entries \"a\"")));
}

TEST(ZipReader, RefusesCompressedAndOverlappingEntries) {
  const TemporaryPath path("archive.zip");
  ZipWriter writer(path.get());
  writer.add("a", "1");
  writer.add("b", "2");
  writer.commit();
  const std::string whole = read_file(path.get());
  const size_t first = whole.find("PK\x01\x02");
  const size_t second = whole.find("PK\x01\x02", first + 4);
  std::string changed = whole;
  changed[first + 10] = 8;
  path.overwrite(changed);
  EXPECT_THAT([&] { text_of(ZipReader(path.get()), "a"); },
              ThrowsMessage<Error>(HasSubstr("\"a\" is compressed (method 8)")));
  changed = whole;
  changed[first + 20] = changed[first + 24] = 60;
  path.overwrite(changed);
  EXPECT_THAT([&] { ZipReader{path.get()}; }, ThrowsMessage<Error>(HasSubstr("overlaps another")));
  changed = whole;
  changed[second + 21] = changed[second + 25] = 100;
  path.overwrite(changed);
  EXPECT_THAT([&] { ZipReader{path.get()}; }, ThrowsMessage<Error>(HasSubstr("the end of the file")));
}

}  // namespace
}  // namespace detent

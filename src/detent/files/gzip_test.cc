#include "detent/files/gzip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "detent/core/error_of_for_test.h"
#include "detent/files/file.h"
#include "detent/files/gzip_for_test.h"

namespace detent {
namespace {

using testing::HasSubstr;

constexpr uint64_t kLimit = 1 << 20;

std::string gunzip(const std::string& bytes, uint64_t limit = kLimit) {
  return read_gzip(std::as_bytes(std::span(bytes)), "source", limit);
}

std::string message_of(const std::string& bytes, uint64_t limit = kLimit) {
  return detent::error_of([&] { gunzip(bytes, limit); });
}

std::string numbers_text() {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += std::to_string(i * 7919 % 104729) + "\n";
  return text;
}

TEST(Gzip, ReadsPlainBytesAsTheyAre) {
  EXPECT_EQ(gunzip(""), "");
  EXPECT_EQ(gunzip("\x1f"), "\x1f");
  EXPECT_EQ(gunzip("plain text"), "plain text");
}

TEST(Gzip, Decompresses) {
  const std::string text = numbers_text();
  EXPECT_EQ(gunzip(gzip_for_test(text)), text);
  EXPECT_EQ(gunzip(gzip_for_test("")), "");
}

TEST(Gzip, JoinsMembers) {
  EXPECT_EQ(gunzip(gzip_for_test("one ") + gzip_for_test("") + gzip_for_test("two")), "one two");
}

TEST(Gzip, LimitIsTheLargestSizeAllowed) {
  for (const std::string& bytes : {std::string("12345678"), gzip_for_test("12345678")}) {
    EXPECT_EQ(gunzip(bytes, 8), "12345678");
    EXPECT_EQ(message_of(bytes, 7), "source: holds more than the 7 bytes that are allowed");
  }
  EXPECT_EQ(gunzip("", 0), "");
  EXPECT_THROW(gunzip("1", 0), Error);
}

TEST(Gzip, EveryTruncationThrows) {
  const std::string whole = gzip_for_test(numbers_text().substr(0, 2000));
  for (size_t size = 2; size < whole.size(); ++size) {
    ASSERT_THAT(message_of(whole.substr(0, size)), HasSubstr("source: the gzip stream is truncated")) << size;
  }
}

TEST(Gzip, CorruptStreamThrows) {
  const std::string whole = gzip_for_test(numbers_text());
  std::string wrong_checksum = whole;
  wrong_checksum[whole.size() - 8] ^= 1;
  EXPECT_EQ(message_of(wrong_checksum), "source: the gzip stream is corrupt after " +
                                            std::to_string(numbers_text().size()) +
                                            " decompressed bytes: incorrect data check");
  std::string wrong_method = whole;
  wrong_method[2] = 7;
  EXPECT_THAT(message_of(wrong_method), HasSubstr("unknown compression method"));
}

TEST(Gzip, TrailingBytesThrow) {
  EXPECT_EQ(message_of(gzip_for_test("text") + "more"),
            "source: 4 bytes that are no gzip data follow the gzip stream");
  EXPECT_THROW(gunzip(gzip_for_test("text") + std::string(1, '\0')), Error);
}

TEST(GzipReader, ReadsInPiecesAndBoundsTheRest) {
  const std::string text = numbers_text();
  const std::string compressed = gzip_for_test(text);
  for (const std::string& bytes : {text, compressed}) {
    GzipReader reader(std::as_bytes(std::span(bytes)), "source");
    std::string joined;
    std::string piece(997, '\0');
    size_t got = 0;
    do {
      EXPECT_GE(reader.remaining_at_most(), text.size() - joined.size());
      got = reader.read(std::as_writable_bytes(std::span(piece)));
      joined.append(piece, 0, got);
    } while (got == piece.size());
    EXPECT_EQ(joined, text);
    EXPECT_EQ(reader.read(std::as_writable_bytes(std::span(piece))), 0U);
  }
}

TEST(GzipFile, ReadsBothKindsAndNamesTheFile) {
  const auto directory = std::filesystem::temp_directory_path() / ("detent_gzip_" + std::to_string(getpid()));
  write_file(directory / "a.gz", gzip_for_test("text"));
  write_file(directory / "a", "text");
  write_file(directory / "cut.gz", gzip_for_test("text").substr(0, 5));
  std::string text(5, '\0');
  const auto read = [&](const char* name) {
    return GzipReader(directory / name).read(std::as_writable_bytes(std::span(text)));
  };
  for (const char* name : {"a.gz", "a"}) {
    EXPECT_EQ(read(name), 4U);
    EXPECT_EQ(text.substr(0, 4), "text");
  }
  EXPECT_THROW(read("b"), Error);
  EXPECT_THAT(detent::error_of([&] { read("cut.gz"); }), HasSubstr("cut.gz: the gzip stream is truncated"));
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace detent

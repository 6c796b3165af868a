#include "detent/datasets/sample_readers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <random>

#include "detent/core/error_of_for_test.h"
#include "detent/files/file.h"
#include "detent/files/gzip_for_test.h"

namespace detent {
namespace {

using testing::HasSubstr;

std::string header(uint8_t type, std::initializer_list<uint32_t> dimensions) {
  std::string bytes = {0, 0, static_cast<char>(type), static_cast<char>(dimensions.size())};
  for (const uint32_t size : dimensions) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(size >> shift & 255);
  }
  return bytes;
}

Tensor parse(const std::string& bytes) { return parse_idx(std::as_bytes(std::span(bytes)), "source"); }

std::string idx_error(const std::string& bytes) {
  return detent::error_of([&] { parse(bytes); });
}

TEST(Idx, ReadsBytesPlainAndCompressed) {
  const std::string bytes = header(8, {2, 3}) + "abcdef";
  const Tensor expected = Tensor::from<uint8_t>({2, 3}, std::vector<uint8_t>{'a', 'b', 'c', 'd', 'e', 'f'});
  EXPECT_TRUE(parse(bytes).equals(expected));
  EXPECT_TRUE(parse(gzip_for_test(bytes)).equals(expected));
}

TEST(Idx, ReadsEveryElementType) {
  using std::string_literals::operator""s;
  EXPECT_TRUE(
      parse(header(9, {2}) + "\xff\x02").equals(Tensor::from<int8_t>({2}, std::vector<int8_t>{-1, 2})));
  EXPECT_TRUE(parse(header(0x0b, {2}) + "\x01\x02\xff\xfe")
                  .equals(Tensor::from<int16_t>({2}, std::vector<int16_t>{258, -2})));
  EXPECT_TRUE(parse(header(0x0c, {1}) + "\x01\x02\x03\x04")
                  .equals(Tensor::from<int32_t>({1}, std::vector<int32_t>{0x01020304})));
  EXPECT_TRUE(
      parse(header(0x0d, {1}) + "\xbf\xc0\0\0"s).equals(Tensor::from<float>({1}, std::vector<float>{-1.5F})));
  EXPECT_TRUE(parse(header(0x0e, {1}) + "\x3f\xf8\0\0\0\0\0\0"s)
                  .equals(Tensor::from<double>({1}, std::vector<double>{1.5})));
}

TEST(Idx, WrongHeadersAreNamed) {
  EXPECT_EQ(idx_error("PNG!"), "source: not an idx file: it begins with bytes 0x50 0x4e, expected 0x00 0x00");
  EXPECT_THAT(idx_error(header(10, {1}) + "a"), HasSubstr("element type 0x0a, expected 0x08, 0x09"));
  EXPECT_EQ(idx_error(header(8, {})), "source: idx file of 0 dimensions, expected 1 to 8");
  EXPECT_THAT(idx_error(header(8, {1, 1, 1, 1, 1, 1, 1, 1, 1}) + "a"), HasSubstr("of 9 dimensions"));
  EXPECT_THAT(idx_error(header(8, {3, 0})), HasSubstr("dimensions [3, 0], expected each to be at least 1"));
  EXPECT_THAT(idx_error(header(8, {1U << 31, 1U << 31, 4})), HasSubstr("product exceeds 64 bits"));
  EXPECT_THAT(idx_error(header(14, {1U << 31, 1U << 30})), HasSubstr("product exceeds 64 bits"));
  EXPECT_THAT(idx_error(header(8, {1U << 31, 1U << 20})), HasSubstr("at most 4294967296 are allowed"));
}

TEST(Idx, SizesThatDifferFromTheDimensionsAreNamed) {
  EXPECT_EQ(idx_error(header(11, {2, 2}) + "1234567"),
            "source: truncated idx file: 7 bytes after the header, but dimensions [2, 2] of int16 need 8");
  EXPECT_EQ(idx_error(header(8, {2, 2}) + "12345"),
            "source: more than the 4 bytes after the header that dimensions [2, 2] of uint8 announce");
  EXPECT_THAT(idx_error(gzip_for_test(header(8, {4}) + "123")), HasSubstr("3 bytes after the header"));
  EXPECT_THAT(idx_error(gzip_for_test(header(8, {4}) + "12345")), HasSubstr("more than the 4 bytes"));
  // Refused before 4 GiB are allocated.
  EXPECT_THAT(idx_error(gzip_for_test(header(8, {1U << 31, 2}))), HasSubstr("at most "));
}

TEST(Idx, ReadsFilesAndNamesThem) {
  const auto path =
      std::filesystem::temp_directory_path() / ("detent_idx_" + std::to_string(getpid()) + ".gz");
  write_file(path, gzip_for_test(header(8, {2}) + "ab"));
  EXPECT_EQ(read_idx(path).shape(), Shape{2});
  write_file(path, gzip_for_test(header(8, {2}) + "abc"));
  try {
    read_idx(path);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(path.string() + ": more than the 2 bytes"));
  }
  std::filesystem::remove(path);
}

int64_t peak_kilobytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

TEST(Idx, BombFailsInBoundedMemory) {
  constexpr size_t kMebibyte = 1 << 20;
  const std::string zeros = gzip_for_test(std::string(kMebibyte, '\0'));
  std::string bomb = gzip_for_test(header(8, {2, 28, 28}));
  for (int i = 0; i < 1024; ++i) bomb += zeros;
  const std::string one_member = gzip_for_test(header(8, {2, 28, 28}) + std::string(16 * kMebibyte, '\0'));
  const int64_t before = peak_kilobytes();
  EXPECT_THAT(idx_error(bomb), HasSubstr("more than the 1568 bytes"));
  EXPECT_THAT(idx_error(one_member), HasSubstr("more than the 1568 bytes"));
  EXPECT_LT(peak_kilobytes() - before, 8 * 1024);
}

TEST(Idx, EveryTruncationThrows) {
  const std::string plain = header(8, {3, 5, 7}) + std::string(105, 'x');
  for (const std::string& whole : {plain, gzip_for_test(plain)}) {
    for (size_t size = 0; size < whole.size(); ++size) {
      ASSERT_THROW(parse(whole.substr(0, size)), Error) << size;
    }
  }
}

/// Replaces, removes or doubles a few bytes.
std::string mutated(std::string bytes, std::mt19937& random) {
  const int changes = 1 + static_cast<int>(random() % 3);
  for (int i = 0; i < changes && !bytes.empty(); ++i) {
    const size_t at = random() % bytes.size();
    switch (random() % 3) {
      case 0:
        bytes[at] = static_cast<char>(random() & 255);
        break;
      case 1:
        bytes.erase(at, 1 + random() % 4);
        break;
      default:
        bytes.insert(at, bytes.substr(at, 1 + random() % 4));
    }
  }
  return bytes;
}

TEST(Idx, MutationsThrowOrGiveWhatTheirHeaderSays) {
  std::mt19937 random(1);
  const std::string plain = header(11, {3, 5, 7}) + std::string(210, 'x');
  const std::string compressed = gzip_for_test(plain);
  int accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::string bytes = mutated(i % 2 == 0 ? plain : compressed, random);
    try {
      const Tensor tensor = parse(bytes);
      EXPECT_EQ(tensor.byte_size(), 210U);
      ++accepted;
    } catch (const Error& error) {
      ASSERT_THAT(error.what(), HasSubstr("source: "));
    }
  }
  EXPECT_GT(accepted, 1000);
  EXPECT_LT(accepted, 19000);
}

}  // namespace
}  // namespace detent

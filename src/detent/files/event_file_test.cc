#include "detent/files/append_file.h"

#include <unistd.h>

#include <bit>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "detent/core/error.h"
#include "detent/files/file.h"

// A reader of its own, written from the descriptions of the formats: bit by bit where the writer has tables.

namespace detent {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

uint64_t number_at(std::string_view bytes, size_t offset, size_t size) {
  uint64_t number = 0;
  for (size_t i = size; i-- > 0;) number = number * 256 + static_cast<uint8_t>(bytes.at(offset + i));
  return number;
}

/// CRC-32C by long division: the message, least bit of each byte first, over x^32 + 0x1EDC6F41.
uint32_t slow_crc(std::string_view bytes) {
  uint32_t remainder = 0xFFFFFFFF;
  for (const char byte : bytes) {
    for (int bit = 0; bit < 8; ++bit) {
      const bool carry = (remainder >> 31U != 0) != ((static_cast<uint8_t>(byte) >> bit & 1) != 0);
      remainder = remainder << 1 ^ (carry ? 0x1EDC6F41U : 0);
    }
  }
  uint32_t mirrored = 0;
  for (int bit = 0; bit < 32; ++bit) mirrored |= (remainder >> bit & 1U) << (31 - bit);
  return ~mirrored;
}

uint32_t masked(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8U; }

/// The records of a file; checks their framing.
std::vector<std::string> records(const std::string& file) {
  std::vector<std::string> result;
  for (size_t at = 0; at < file.size();) {
    const uint64_t length = number_at(file, at, 8);
    EXPECT_EQ(number_at(file, at + 8, 4), masked(slow_crc(file.substr(at, 8))));
    result.push_back(file.substr(at + 12, length));
    EXPECT_EQ(result.back().size(), length);
    EXPECT_EQ(number_at(file, at + 12 + length, 4), masked(slow_crc(result.back())));
    at += 16 + length;
  }
  return result;
}

/// The fields of a protobuf message, in order; numbers as their bytes.
std::vector<std::pair<uint64_t, std::string>> message_fields(std::string_view bytes) {
  std::vector<std::pair<uint64_t, std::string>> fields;
  size_t at = 0;
  const auto varint = [&] {
    uint64_t number = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<uint8_t>(bytes.at(at++));
      number |= uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return number;
    }
  };
  while (at < bytes.size()) {
    const uint64_t key = varint();
    const uint64_t wire = key % 8;
    std::string value;
    if (wire == 0) {
      const uint64_t number = varint();
      for (int i = 0; i < 8; ++i) value += static_cast<char>(number >> (8 * i));
    } else {
      const uint64_t size = wire == 1 ? 8 : wire == 5 ? 4 : varint();
      EXPECT_TRUE(wire == 1 || wire == 2 || wire == 5) << wire;
      value = bytes.substr(at, size);
      at += size;
    }
    fields.emplace_back(key / 8, value);
  }
  return fields;
}

struct ReadEvent {
  double wall_time = 0;
  uint64_t step = 0;
  std::string version;
  std::map<std::string, float> scalars;
};

ReadEvent read_event(const std::string& record) {
  ReadEvent event;
  for (const auto& [field, value] : message_fields(record)) {
    if (field == 1) event.wall_time = std::bit_cast<double>(number_at(value, 0, 8));
    if (field == 2) event.step = number_at(value, 0, 8);
    if (field == 3) event.version = value;
    if (field != 5) continue;
    for (const auto& [summary_field, summary_value] : message_fields(value)) {
      EXPECT_EQ(summary_field, 1U);
      const auto entry = message_fields(summary_value);
      EXPECT_EQ(entry.size(), 2U);
      EXPECT_EQ(entry[0].first, 1U);
      EXPECT_EQ(entry[1].first, 2U);
      event.scalars[entry[0].second] =
          std::bit_cast<float>(static_cast<uint32_t>(number_at(entry[1].second, 0, 4)));
    }
  }
  return event;
}

class EventFileTest : public testing::Test {
 protected:
  ~EventFileTest() override { fs::remove(path_); }

  fs::path path_ = fs::temp_directory_path() / fmt::format("events.out.tfevents.{}", getpid());
};

TEST(Crc32c, OfTheReaderIsThatOfTheStandard) {
  // RFC 3720 B.4, and the check value of the catalogue of CRC algorithms
  EXPECT_EQ(slow_crc(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(slow_crc("123456789"), 0xE3069283U);
}

TEST_F(EventFileTest, HoldsWhatWasWritten) {
  {
    EventFile file(path_, 0, 1000.5);
    file.write(1001.25, 3, std::vector<ScalarEvent>{{"train/loss", 0.75F}, {"learning_rate", 1e-3F}});
    file.write(1002, 3000000000, std::vector<ScalarEvent>{{std::string(300, 'x'), -1}});
    file.flush();
    EXPECT_EQ(file.size(), fs::file_size(path_));
  }
  const std::vector<std::string> all = records(read_file(path_));
  ASSERT_EQ(all.size(), 3U);
  const ReadEvent head = read_event(all[0]);
  EXPECT_EQ(head.wall_time, 1000.5);
  EXPECT_EQ(head.version, "brain.Event:2");
  const ReadEvent first = read_event(all[1]);
  EXPECT_EQ(first.wall_time, 1001.25);
  EXPECT_EQ(first.step, 3U);
  EXPECT_THAT(first.scalars,
              ElementsAre(testing::Pair("learning_rate", 1e-3F), testing::Pair("train/loss", 0.75F)));
  const ReadEvent second = read_event(all[2]);
  EXPECT_EQ(second.step, 3000000000U);
  EXPECT_THAT(second.scalars, ElementsAre(testing::Pair(std::string(300, 'x'), -1.0F)));
}

TEST_F(EventFileTest, GoesOnAfterWhatItKeeps) {
  uint64_t keep = 0;
  {
    EventFile file(path_, 0, 1);
    file.write(2, 1, std::vector<ScalarEvent>{{"a", 1}});
    keep = file.size();
    file.write(3, 2, std::vector<ScalarEvent>{{"a", 2}});
  }
  EventFile file(path_, keep, 9);
  file.write(4, 2, std::vector<ScalarEvent>{{"a", 5}});
  const std::vector<std::string> all = records(read_file(path_));
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(read_event(all[1]).scalars["a"], 1);
  EXPECT_EQ(read_event(all[2]).scalars["a"], 5);
}

}  // namespace
}  // namespace detent

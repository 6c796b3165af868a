#include "detent/formats/packing/encode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "detent/formats/every_target_test.h"

namespace detent {
namespace {

using testing::ElementsAre;

std::vector<uint8_t> packed(Packing packing, int width, const std::vector<uint32_t>& codes) {
  const auto count = static_cast<int64_t>(codes.size());
  std::vector<uint8_t> bytes(static_cast<size_t>(packed_size(packing, width, count)) + 1, 0xA5);
  pack_codes(packing, width, codes.data(), count, bytes.data());
  EXPECT_EQ(bytes.back(), 0xA5) << "wrote past the end";
  bytes.pop_back();
  return bytes;
}

TEST(BitPacking, LittleEndianBitStream) {
  EXPECT_THAT(packed(Packing::kBits, 3, {1, 2, 7}), ElementsAre(0b11010001, 0b1));
  EXPECT_THAT(packed(Packing::kBits, 4, {0xA, 0x5, 0xF}), ElementsAre(0x5A, 0x0F));
  EXPECT_THAT(packed(Packing::kBits, 12, {0xABC, 0x123}), ElementsAre(0xBC, 0x3A, 0x12));
  EXPECT_THAT(packed(Packing::kBits, 32, {0x04030201}), ElementsAre(1, 2, 3, 4));
}

TEST(BitPacking, FiveTernaryDigitsInAByte) {
  EXPECT_THAT(packed(Packing::kBase3, 2, {1, 0, 3, 0, 0, 3}), ElementsAre(1 + 2 * 9, 2));
  EXPECT_THAT(packed(Packing::kBase3, 2, {3, 3, 3, 3, 3}), ElementsAre(242));
  std::vector<uint32_t> codes(10);
  const std::vector<uint8_t> bad = {0, 243};
  EXPECT_EQ(unpack_codes(Packing::kBase3, 2, bad.data(), 10, codes.data()), 5);
}

/// The definition, bit by bit.
std::vector<uint8_t> reference_bits(int width, const std::vector<uint32_t>& codes) {
  const auto bits = codes.size() * static_cast<size_t>(width);
  std::vector<uint8_t> bytes((bits + 7) / 8);
  for (size_t k = 0; k < bits; ++k) {
    const uint32_t bit = codes[k / static_cast<size_t>(width)] >> (k % static_cast<size_t>(width)) & 1U;
    bytes[k / 8] = static_cast<uint8_t>(bytes[k / 8] | bit << (k % 8));
  }
  return bytes;
}

std::vector<uint8_t> reference_base3(const std::vector<uint32_t>& codes) {
  constexpr std::array<uint32_t, 5> kPowers = {1, 3, 9, 27, 81};
  std::vector<uint8_t> bytes((codes.size() + 4) / 5);
  for (size_t i = 0; i < codes.size(); ++i) {
    const uint32_t digit = codes[i] == 3 ? 2 : codes[i];
    bytes[i / 5] = static_cast<uint8_t>(bytes[i / 5] + digit * kPowers[i % 5]);
  }
  return bytes;
}

/// 0 up to four of the widest vectors of bytes and three, then some that need several chunks.
std::vector<int64_t> lengths() {
  std::vector<int64_t> result(260);
  std::iota(result.begin(), result.end(), 0);
  for (const int64_t length : {639, 640, 641, 1283, 2560}) result.push_back(length);
  return result;
}

class EveryTargetPacks : public EveryTargetTest {
 protected:
  /// Packs to and unpacks from odd addresses.
  static void expect_packs(Packing packing, int width, const std::vector<uint32_t>& codes,
                           const std::vector<uint8_t>& expected) {
    const std::vector<uint8_t> bytes = packed(packing, width, codes);
    ASSERT_EQ(bytes, expected) << codes.size() << " codes of " << width << " bits";
    std::vector<uint8_t> moved = {0xA5};
    moved.insert(moved.end(), bytes.begin(), bytes.end());
    const auto count = static_cast<int64_t>(codes.size());
    std::vector<uint32_t> back(codes.size() + 2, 7);
    ASSERT_EQ(unpack_codes(packing, width, moved.data() + 1, count, back.data() + 1), count);
    ASSERT_EQ(back.front(), 7U);
    ASSERT_EQ(back.back(), 7U) << "wrote past the end";
    ASSERT_EQ(std::vector<uint32_t>(back.begin() + 1, back.end() - 1), codes) << width;
  }
};

TEST_P(EveryTargetPacks, EveryWidthAndLength) {
  std::mt19937 random(7);
  for (int width = 1; width <= 32; ++width) {
    for (const int64_t count : lengths()) {
      std::vector<uint32_t> codes(static_cast<size_t>(count));
      for (uint32_t& code : codes) code = static_cast<uint32_t>(random()) >> (32 - width);
      ASSERT_NO_FATAL_FAILURE(expect_packs(Packing::kBits, width, codes, reference_bits(width, codes)));
    }
  }
}

TEST_P(EveryTargetPacks, TernaryDigits) {
  std::mt19937 random(7);
  for (const int64_t count : lengths()) {
    std::vector<uint32_t> codes(static_cast<size_t>(count));
    for (uint32_t& code : codes) code = std::array{0U, 1U, 3U}[random() % 3];
    ASSERT_NO_FATAL_FAILURE(expect_packs(Packing::kBase3, 2, codes, reference_base3(codes)));
  }
}

TEST_P(EveryTargetPacks, FindsTheFirstByteThatBase3NeverWrites) {
  std::vector<uint8_t> bytes(400, 242);
  std::vector<uint32_t> codes(2000);
  for (const size_t bad : {0U, 127U, 128U, 131U, 399U}) {
    bytes[bad] = 243;
    EXPECT_EQ(unpack_codes(Packing::kBase3, 2, bytes.data(), 2000, codes.data()),
              5 * static_cast<int64_t>(bad));
    bytes[bad] = 0;
  }
}

DETENT_ON_EVERY_TARGET(EveryTargetPacks);

}  // namespace
}  // namespace detent

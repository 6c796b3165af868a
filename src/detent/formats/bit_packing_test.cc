#include "detent/formats/bit_packing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

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

TEST(BitPacking, RoundTripsEveryWidthAndLength) {
  std::mt19937 random(7);
  for (int width = 1; width <= 32; ++width) {
    for (int64_t count = 0; count < 90; ++count) {
      std::vector<uint32_t> codes;
      const uint32_t mask = width == 32 ? ~0U : (1U << width) - 1;
      for (int64_t i = 0; i < count; ++i) codes.push_back(static_cast<uint32_t>(random()) & mask);
      const std::vector<uint8_t> bytes = packed(Packing::kBits, width, codes);
      EXPECT_EQ(static_cast<int64_t>(bytes.size()), (count * width + 7) / 8);
      std::vector<uint32_t> back(codes.size());
      EXPECT_EQ(unpack_codes(Packing::kBits, width, bytes.data(), count, back.data()), count);
      EXPECT_EQ(back, codes) << width;
    }
  }
}

TEST(BitPacking, RoundTripsTernaryDigits) {
  std::mt19937 random(7);
  for (int64_t count = 0; count < 30; ++count) {
    std::vector<uint32_t> codes;
    for (int64_t i = 0; i < count; ++i) codes.push_back(std::array{0U, 1U, 3U}[random() % 3]);
    const std::vector<uint8_t> bytes = packed(Packing::kBase3, 2, codes);
    std::vector<uint32_t> back(codes.size());
    EXPECT_EQ(unpack_codes(Packing::kBase3, 2, bytes.data(), count, back.data()), count);
    EXPECT_EQ(back, codes);
  }
}

}  // namespace
}  // namespace detent

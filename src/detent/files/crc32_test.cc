#include "detent/files/checksums.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <random>
#include <vector>

namespace detent {
namespace {

TEST(Crc32, IsThatOfZlib) {
  std::mt19937 random(1);
  std::vector<std::byte> bytes(5000);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  for (size_t size = 0; size <= 700; ++size) {
    for (const size_t begin : {0U, 1U, 13U}) {
      const auto part = std::span(bytes).subspan(begin, size);
      ASSERT_EQ(crc32(part), ::crc32_z(0, reinterpret_cast<const Bytef*>(part.data()), part.size()))
          << size << " bytes from " << begin;
    }
  }
  EXPECT_EQ(crc32(bytes), ::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

TEST(Crc32, IsThePublishedCheckValue) {
  constexpr std::string_view kDigits = "123456789";
  EXPECT_EQ(crc32(std::as_bytes(std::span(kDigits))), 0xCBF43926U);
}

}  // namespace
}  // namespace detent

#include "detent/checkpoints/gguf/gguf_format.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <map>

#include "detent/checkpoints/gguf/gguf_file.h"
#include "detent/files/checksums.h"
#include "detent/formats/every_target_test.h"

namespace detent {
namespace {

constexpr uint32_t kAnyNan = 0x7FC00000;
constexpr uint32_t kOnlyInMemory = 9;  // Q8_1, which no library decodes

/// Written by tests/data/gguf/make_block_vectors.py.
const GgufFile& vectors() {
  static const GgufFile file = read_gguf(std::string(DETENT_SOURCE_DIR) + "/tests/data/gguf/blocks.gguf");
  return file;
}

/// splitmix64 of a counter, as the script has it.
std::vector<std::byte> random_blocks(const GgufFormat& format, size_t count) {
  std::vector<std::byte> bytes((count * format.bytes + 7) / 8 * 8);
  for (size_t i = 0; i < bytes.size() / 8; ++i) {
    uint64_t z = ((uint64_t{format.id} << 32) + i + 1) * 0x9E3779B97F4A7C15U;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    z ^= z >> 31;
    std::memcpy(bytes.data() + 8 * i, &z, sizeof(z));
  }
  bytes.resize(count * format.bytes);
  return bytes;
}

uint32_t canonical_bits(float value) { return std::isnan(value) ? kAnyNan : std::bit_cast<uint32_t>(value); }

std::vector<GgufFormat> decoded_formats() {
  std::vector<GgufFormat> formats;
  for (const GgufFormat& format : gguf_formats()) {
    if (!holds_plain_numbers(format) && format.id != kOnlyInMemory) formats.push_back(format);
  }
  return formats;
}

TEST(GgufFormat, FollowsTheNumberOfElements) {
  EXPECT_EQ(find_gguf_format(4), nullptr) << "taken back";
  EXPECT_STREQ(find_gguf_format(39)->name, "MXFP4");
  EXPECT_TRUE(holds_plain_numbers(*find_gguf_format(30)));
  EXPECT_EQ(decoded_formats().size(), 26U);
}

class GgufDecoding : public EveryTargetTest {};
DETENT_ON_EVERY_TARGET(GgufDecoding);

TEST_P(GgufDecoding, GivesWhatTheLibraryOfTheFormatsGives) {
  for (const GgufFormat& format : decoded_formats()) {
    const std::string name = format.name;
    ASSERT_NE(vectors().find(name), nullptr) << name;
    const Tensor expected = gguf_elements(*vectors().find(name + ".values"));
    const Tensor decoded = gguf_elements(*vectors().find(name));
    ASSERT_EQ(decoded.numel(), expected.numel()) << name;
    for (size_t i = 0; i < expected.values<float>().size(); ++i) {
      const float value = decoded.values<float>()[i];
      const float wanted = expected.values<float>()[i];
      ASSERT_EQ(canonical_bits(value), canonical_bits(wanted))
          << name << " " << i << ": " << value << ", " << wanted;
    }
  }
}

/// Hundreds of random blocks a format, in which scales are infinite, NaN and subnormal too.
TEST_P(GgufDecoding, HasTheDigestsOfTheLibrary) {
  const auto count = static_cast<size_t>(vectors().metadata.integer("digest.blocks"));
  for (const GgufFormat& format : decoded_formats()) {
    std::vector<float> values(count * format.elements);
    decode_gguf_blocks(format, random_blocks(format, count), values);
    for (float& value : values) value = std::bit_cast<float>(canonical_bits(value));
    EXPECT_EQ(crc32(std::as_bytes(std::span(values))),
              vectors().metadata.integer(std::string("digest.") + format.name))
        << format.name;
  }
}

/// ggml has no function for these: elements are scale times byte.
TEST_P(GgufDecoding, ReadsBlocksOfActivations) {
  std::vector<uint8_t> block(36);
  block[1] = 0x38;  // 0.5
  block[4] = 3;
  block[35] = 0x80;
  std::vector<float> values(32);
  decode_gguf_blocks(*find_gguf_format(kOnlyInMemory), std::as_bytes(std::span(block)), values);
  EXPECT_EQ(values[0], 1.5F);
  EXPECT_EQ(values[1], 0);
  EXPECT_EQ(values[31], -64);
}

}  // namespace
}  // namespace detent

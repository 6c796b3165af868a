#include "detent/files/scratch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "detent/core/convert.h"
#include "detent/core/sanitizers_for_test.h"
#include "detent/files/temporary_file_test.h"

namespace detent {
namespace {

int64_t resident_kilobytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key)) return std::stoll(line.substr(key.size()));
  }
  return 0;
}

/// Kilobytes of this process that no file backs, and that one does, in memory too.
int64_t anonymous_kilobytes() { return resident_kilobytes("RssAnon:"); }
int64_t mapped_kilobytes() { return resident_kilobytes("RssFile:") + resident_kilobytes("RssShmem:"); }

class ScratchTensors : public testing::Test {
 protected:
  TemporaryPath file_{"unused"};
  const std::filesystem::path directory_ = file_.get().parent_path();
};

TEST_F(ScratchTensors, LargeOnesAreInAFileWithoutAName) {
  const Scratch scratch(directory_);
  const int64_t before = anonymous_kilobytes();
  Tensor large = scratch.tensor(DType::kFloat32, {3, 4 << 20});
  EXPECT_EQ(large.shape(), Shape({3, 4 << 20}));
  for (float& value : large.values<float>()) {
    ASSERT_EQ(value, 0);
    value = 1;
  }
  if (!kMemoryHasShadow) {
    EXPECT_LT(anonymous_kilobytes() - before, 4096);  // of 48 MB
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory_));
  page_out(large);
  EXPECT_EQ(large.values<float>().back(), 1);
}

TEST_F(ScratchTensors, KeepTheirElementsWithoutPages) {
  Tensor large = Scratch(directory_).tensor(DType::kFloat32, {3, 4 << 20});
  std::ranges::fill(large.values<float>(), 2.0F);
  const int64_t before = mapped_kilobytes();
  unmap_pages(large);
  EXPECT_LT(mapped_kilobytes() - before, -40'000);  // of 48 MB
  EXPECT_TRUE(std::ranges::all_of(large.values<float>(), [](float x) { return x == 2; }));
}

TEST_F(ScratchTensors, SmallOnesAreOrdinary) {
  Tensor small = Scratch("/nowhere").tensor(DType::kUInt8, {5});
  EXPECT_EQ(small.values<uint8_t>()[4], 0);
  page_out(small);
  EXPECT_EQ(Scratch("/nowhere", 0).tensor(DType::kUInt8, {0}).numel(), 0);
}

TEST_F(ScratchTensors, WideningIsThatOfTheWholeTensor) {
  Tensor halves(DType::kFloat16, {3, 700000});
  uint16_t next = 0;
  for (size_t i = 0; i < halves.byte_size(); i += 2) {
    halves.bytes()[i] = static_cast<std::byte>(next & 0xFF);
    halves.bytes()[i + 1] = static_cast<std::byte>(next++ >> 8 & 0x7B);  // no infinities, no NaN
  }
  for (const size_t in_memory : {size_t{0}, Scratch::kBytesInMemory})
    EXPECT_TRUE(Scratch(directory_, in_memory).to_float32(halves).equals(to_float32(halves)));
}

TEST_F(ScratchTensors, SaysWhereThereIsNoRoom) {
  EXPECT_THAT([] { Scratch("/nowhere", 0).tensor(DType::kUInt8, {100}); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("temporary file of 100 bytes in /nowhere")));
}

}  // namespace
}  // namespace detent

#include "detent/core/process_resources.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "detent/core/sanitizers_for_test.h"
#include "detent/core/tensor.h"

namespace detent {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

TEST(LargeBlocks, AreCountedWhileTheyAreUsed) {
  const int64_t before = large_block_bytes().used;
  {
    const Tensor tensor(DType::kUInt8, {3 << 20});
    const int64_t used = large_block_bytes().used;
    EXPECT_GE(used - before, 3 << 20);
    EXPECT_LE(used - before, 15 << 18) << "of an earlier tensor, at most a quarter more";
    const Tensor small(DType::kUInt8, {1000});
    EXPECT_EQ(large_block_bytes().used, used);
  }
  EXPECT_EQ(large_block_bytes().used, before);
}

TEST(LargeBlocks, ServeTheNextOfAboutTheirSize) {
  DETENT_SKIP_UNDER_SANITIZERS();
  const std::byte* first = large_block(8 * kMiB).get();
  EXPECT_EQ(large_block(7 * kMiB).get(), first);
  const auto other = large_block(2 * kMiB);  // a quarter of it would be wasted
  EXPECT_NE(other.get(), first);
}

TEST(LargeBlocks, KeepFewThatNobodyUses) {
  std::vector<std::shared_ptr<std::byte>> many;
  reset_most_large_block_bytes();
  for (int i = 0; i < 64; ++i) many.push_back(large_block(4 * kMiB));
  EXPECT_GE(large_block_bytes().most, int64_t{256} << 20);
  many.clear();
  EXPECT_LE(large_block_bytes().kept, int64_t{24} << 20);
}

TEST(LargeBlocks, AreNotGivenTwice) {
  const auto fill = [](int seed) {
    for (int i = 0; i < 200; ++i) {
      const size_t bytes = (1 + static_cast<size_t>((seed + i) % 3)) * kMiB;
      const auto block = large_block(bytes);
      std::memset(block.get(), seed, bytes);
      for (size_t at = 0; at < bytes; at += 4096) ASSERT_EQ(block.get()[at], static_cast<std::byte>(seed));
    }
  };
  std::vector<std::thread> threads;
  for (int seed = 1; seed <= 4; ++seed) threads.emplace_back(fill, seed);
  for (std::thread& thread : threads) thread.join();
}

TEST(LargeBlocks, AreRefusedWhereMemoryEnds) {
  DETENT_SKIP_UNDER_SANITIZERS();
  EXPECT_EQ(large_block(size_t{1} << 62), nullptr);
}

}  // namespace
}  // namespace detent

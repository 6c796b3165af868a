#include "detent/core/block_cache.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <new>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "detent/core/sanitizers_for_test.h"
#include "detent/core/tensor.h"

namespace detent {
namespace {

constexpr size_t kMega = size_t{1} << 20;

size_t held(const BlockCache& cache) { return cache.bytes().in_use + cache.bytes().kept; }

TEST(BlockCache, BlocksOfAllSizesAreAlignedAndApart) {
  BlockCache cache(kMega);
  std::vector<std::pair<char*, size_t>> blocks;
  constexpr size_t kLarge = BlockCache::kLarge;
  for (const size_t size : std::initializer_list<size_t>{0, 1, 63, 64, 4096, kLarge - 1, kLarge, kLarge + 1,
                                                         kMega, 3 * kMega + 5}) {
    auto* data = static_cast<char*>(cache.take(size));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % BlockCache::kAlignment, 0U) << size;
    std::memset(data, static_cast<int>(blocks.size()), size);
    blocks.emplace_back(data, size);
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    const auto [data, size] = blocks[i];
    for (size_t k = 0; k < size; k += 97) ASSERT_EQ(data[k], static_cast<char>(i)) << size;
    cache.give_back(data);
  }
  cache.give_back(nullptr);
  EXPECT_EQ(cache.bytes().in_use, 0U);
}

TEST(BlockCache, RoundsUpByAnEighthAtMost) {
  for (size_t bytes = BlockCache::kLarge; bytes < 64 * kMega; bytes += bytes / 7 + 1) {
    const size_t rounded = BlockCache::rounded(bytes);
    EXPECT_GE(rounded, bytes);
    EXPECT_LE(rounded, bytes + bytes / 8);
    EXPECT_EQ(BlockCache::rounded(rounded), rounded);
  }
}

TEST(BlockCache, GivesTheSameBlocksAgain) {
  BlockCache cache(0);
  void* const first = cache.take(4 * kMega);
  void* const second = cache.take(4 * kMega);
  cache.give_back(second);
  cache.give_back(first);
  EXPECT_EQ(cache.take(4 * kMega - 4096), first);
  EXPECT_EQ(cache.take(4 * kMega), second);
  cache.give_back(first);
  cache.give_back(second);
  EXPECT_EQ(cache.bytes().kept, 8 * kMega);
  cache.give_back_to_system();
  EXPECT_EQ(cache.bytes().kept, 0U);
}

TEST(BlockCache, HoldsNoMoreThanWasInUseAtOnce) {
  constexpr size_t kSpare = 2 * kMega;
  BlockCache cache(kSpare);
  std::mt19937 generator(1);
  std::vector<void*> blocks;
  size_t most_in_use = 0;
  for (int i = 0; i < 3000; ++i) {
    if (blocks.empty() || generator() % 2 == 0) {
      blocks.push_back(cache.take(BlockCache::kLarge + generator() % (8 * kMega)));
      most_in_use = std::max(most_in_use, cache.bytes().in_use);
    } else {
      std::swap(blocks[generator() % blocks.size()], blocks.back());
      cache.give_back(blocks.back());
      blocks.pop_back();
    }
    ASSERT_LE(held(cache), most_in_use + kSpare);
  }
  for (void* block : blocks) cache.give_back(block);
}

TEST(BlockCache, KeepsNoMoreThanItMay) {
  BlockCache cache(SIZE_MAX / 2, 5 * kMega);
  std::vector<void*> blocks;
  for (int i = 0; i < 16; ++i) blocks.push_back(cache.take(kMega));
  for (void* block : blocks) cache.give_back(block);
  EXPECT_EQ(cache.bytes().kept, 5 * kMega);
}

TEST(BlockCache, WhatWasKeptLongestGoesFirst) {
  BlockCache cache(0);
  void* const a = cache.take(kMega);
  void* const b = cache.take(2 * kMega);
  cache.give_back(b);
  cache.give_back(a);
  void* const c = cache.take(3 * kMega);  // 3 MiB were in use at once: nothing else may be kept
  EXPECT_EQ(cache.bytes().kept, 0U);
  cache.give_back(c);
  void* const d = cache.take(kMega / 2);  // half a MiB of room is wanted, and c has to go
  EXPECT_EQ(cache.bytes().kept, 0U);
  cache.give_back(d);
  EXPECT_EQ(cache.bytes().kept, kMega / 2);
  EXPECT_EQ(cache.take(kMega / 2), d);
  cache.give_back(d);
}

TEST(BlockCache, ForgetsAPeakOfLongAgo) {
  BlockCache cache(kMega);
  std::vector<void*> blocks;
  for (int i = 0; i < 16; ++i) blocks.push_back(cache.take(4 * kMega));
  for (void* block : blocks) cache.give_back(block);
  EXPECT_EQ(cache.bytes().kept, 64 * kMega);
  for (int64_t i = 0; i < 2 * BlockCache::kRecent; ++i) cache.give_back(cache.take(kMega));
  EXPECT_LE(held(cache), 2 * kMega);
}

TEST(BlockCache, MoreThanThereIsIsAnError) {
  BlockCache cache(0);
  for (const size_t size : {SIZE_MAX, SIZE_MAX / 2, SIZE_MAX / 8})
    EXPECT_THROW(cache.take(size), std::bad_alloc);
  EXPECT_EQ(cache.bytes().in_use, 0U);
}

TEST(BlockCache, EachSizeHasBlocksOfItsOwn) {
  BlockCache cache(1000 * kMega);
  std::vector<std::pair<size_t, void*>> blocks;
  for (size_t size = BlockCache::kLarge; size < 64 * kMega; size = BlockCache::rounded(size + 1))
    blocks.emplace_back(size, cache.take(size));
  for (const auto& [size, block] : blocks) cache.give_back(block);
  for (const auto& [size, block] : blocks) EXPECT_EQ(cache.take(size), block) << size;
  for (const auto& [size, block] : blocks) cache.give_back(block);
}

TEST(BlockCache, CountsTheMostThatWereInUse) {
  BlockCache cache(0);
  void* const a = cache.take(kMega);
  void* const b = cache.take(2 * kMega);
  cache.give_back(a);
  EXPECT_EQ(cache.bytes().most_in_use, 3 * kMega);
  cache.restart_most_in_use();
  EXPECT_EQ(cache.bytes().most_in_use, 2 * kMega);
  cache.give_back(b);
}

TEST(BlockCache, HasTheMemoryOfLargeTensors) {
  DETENT_SKIP_UNDER_SANITIZERS();
  const size_t before = tensor_blocks().bytes().in_use;
  {
    const Tensor tensor(DType::kUInt8, {3 << 20});
    EXPECT_EQ(tensor_blocks().bytes().in_use - before, 3 * kMega);
    const Tensor small(DType::kUInt8, {1000});
    EXPECT_EQ(tensor_blocks().bytes().in_use - before, 3 * kMega);
  }
  EXPECT_EQ(tensor_blocks().bytes().in_use, before);
}

TEST(BlockCache, ThreadsGetBlocksOfTheirOwn) {
  BlockCache cache(4 * kMega);
  const auto work = [&](unsigned seed) {
    std::mt19937 generator(seed);
    for (int i = 0; i < 500; ++i) {
      const size_t count = (generator() % 4 * BlockCache::kLarge + 1024) / sizeof(unsigned);
      auto* mine = static_cast<unsigned*>(cache.take(count * sizeof(unsigned)));
      mine[0] = mine[count / 2] = mine[count - 1] = seed;
      std::this_thread::yield();
      EXPECT_EQ(mine[0], seed);
      EXPECT_EQ(mine[count / 2], seed);
      EXPECT_EQ(mine[count - 1], seed);
      cache.give_back(mine);
    }
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned seed = 1; seed <= 4; ++seed) threads.emplace_back(work, seed);
  }
  EXPECT_EQ(cache.bytes().in_use, 0U);
}

}  // namespace
}  // namespace detent

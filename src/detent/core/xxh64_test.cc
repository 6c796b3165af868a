#include "detent/core/xxh64.h"

#include <string>

#include <gtest/gtest.h>

namespace detent {
namespace {

TEST(Xxh64, GivesWhatIsPublished) {
  EXPECT_EQ(xxh64(""), 0xef46db3751d8e999U);
  EXPECT_EQ(xxh64("a"), 0xd24ec4f1a98c6e5bU);
  EXPECT_EQ(xxh64("abc"), 0x44bc2cf5ad770999U);
  EXPECT_EQ(xxh64("xxhash"), 0x32dd38952c4bc720U);
  EXPECT_EQ(xxh64("xxhash", 20141025), 0xb559b98d844e0635U);
  EXPECT_EQ(xxh64("Nobody inspects the spammish repetition"), 0xfbcea83c8a378bf1U);
}

/// The reference library's result for every length up to 199, each the seed of the next.
TEST(Xxh64, GivesWhatTheReferenceGivesForEveryLength) {
  std::string text;
  uint64_t hash = 0;
  for (int i = 0; i < 200; ++i) {
    hash = xxh64(text, hash);
    text += static_cast<char>(i * 7 + 3);
  }
  EXPECT_EQ(hash, 0xf0527f3f1783d6e3U);
}

}  // namespace
}  // namespace detent

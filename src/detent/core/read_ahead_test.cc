#include "detent/core/read_ahead.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>

namespace detent {
namespace {

using testing::Le;
using testing::ThrowsMessage;

TEST(ReadAhead, GivesTheResultsInOrderHoweverManyThreads) {
  for (const int64_t threads : {0, 1, 4}) {
    ReadAhead<int64_t> ahead(200, threads, [](int64_t index) {
      std::this_thread::sleep_for(std::chrono::microseconds(index * 37 % 50));
      return index * index;
    });
    for (int64_t i = 0; i < 200; ++i) ASSERT_EQ(ahead.take(), i * i) << threads;
  }
}

TEST(ReadAhead, DoesNotRunFurtherAheadThanItMay) {
  constexpr int64_t kThreads = 3;
  std::atomic<int64_t> made = 0;
  ReadAhead<int64_t> ahead(1000, kThreads, [&](int64_t index) {
    ++made;
    return index;
  });
  for (int64_t taken = 0; taken < 20; ++taken) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_THAT(made.load(), Le(taken + 2 * kThreads));
    ahead.take();
  }
}

TEST(ReadAhead, ThrowsWhatAThreadThrewWhereItsResultWouldBe) {
  for (const int64_t threads : {0, 2}) {
    ReadAhead<int64_t> ahead(5, threads, [](int64_t index) {
      if (index == 1) fail("sample 1 is broken");
      return index;
    });
    EXPECT_EQ(ahead.take(), 0);
    EXPECT_THAT([&] { ahead.take(); }, ThrowsMessage<Error>("sample 1 is broken"));
    EXPECT_EQ(ahead.take(), 2);
  }
}

TEST(ReadAhead, EndsInTheMiddle) {
  std::atomic<int64_t> running = 0;
  {
    ReadAhead<int64_t> ahead(1000000, 4, [&](int64_t index) {
      ++running;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      --running;
      return index;
    });
    ahead.take();
  }
  EXPECT_EQ(running, 0);
  const ReadAhead<int64_t> nothing(0, 2, [](int64_t index) { return index; });
}

}  // namespace
}  // namespace detent

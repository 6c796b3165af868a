#include "detent/core/interruption.h"

#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "detent/core/parallel.h"

namespace detent {
namespace {

using std::chrono::milliseconds;

TEST(Interruption, NothingEndsWhatNobodyCanInterrupt) { EXPECT_NO_THROW(check_interruption()); }

TEST(Interruption, EndsParallelWorkOnAllThreads) {
  std::atomic<int64_t> done = 0;
  constexpr int64_t kPieces = 10'000;
  const Interruptible stop([] { return true; });
  EXPECT_THROW(parallel_for(kPieces, 1,
                            [&](int64_t, int64_t) {
                              std::this_thread::sleep_for(milliseconds(1));
                              ++done;
                            }),
               Interrupted);
  EXPECT_LT(done, kPieces);
  EXPECT_THROW(check_interruption(), Interrupted);  // it stays so
}

TEST(Interruption, AsksTheThreadThatCanBeAskedAlone) {
  const std::thread::id mine = std::this_thread::get_id();
  std::atomic<int> others = 0;
  const Interruptible never([&] {
    if (std::this_thread::get_id() != mine) ++others;
    return false;
  });
  parallel_for(200, 1, [](int64_t, int64_t) { std::this_thread::sleep_for(milliseconds(1)); });
  EXPECT_EQ(others, 0);
}

TEST(Interruption, IsToldToWhatMayNotThrow) {
  const Interruptible stop([] { return true; });
  Interruptible::State* const state = interruption_of_this_thread();
  std::this_thread::sleep_for(milliseconds(60));
  EXPECT_TRUE(is_interrupted(state));
}

TEST(Interruption, EndsWithItsObject) {
  {
    const Interruptible stop([] { return true; });
    std::this_thread::sleep_for(milliseconds(60));
    EXPECT_THROW(check_interruption(), Interrupted);
  }
  EXPECT_NO_THROW(check_interruption());
}

TEST(ThreadLimit, HoldsForItsThreadAlone) {
  const int all = thread_count();
  {
    const LimitThreads one(1);
    EXPECT_EQ(thread_count(), 1);
    int elsewhere = 0;
    std::thread([&] { elsewhere = thread_count(); }).join();
    EXPECT_EQ(elsewhere, all);
    const LimitThreads more(all + 5);
    EXPECT_EQ(thread_count(), all);
  }
  EXPECT_EQ(thread_count(), all);
}

}  // namespace
}  // namespace detent

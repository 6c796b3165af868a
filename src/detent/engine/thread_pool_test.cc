#include "detent/engine/thread_pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "detent/core/parallel.h"

namespace detent {
namespace {

TEST(ThreadPool, DoesEachTaskOnce) {
  ThreadPool pool;
  for (int again = 0; again < 300; ++again) {
    for (const int threads : {1, 2, 3, 8}) {
      std::vector<std::atomic<int>> done(static_cast<size_t>(again % 7));
      pool.run(std::ssize(done), threads, [&](int64_t task) { ++done[static_cast<size_t>(task)]; });
      for (const auto& count : done) EXPECT_EQ(count, 1);
    }
  }
}

TEST(ThreadPool, WakesThreadsThatFellAsleep) {
  ThreadPool pool;
  for (int again = 0; again < 5; ++again) {
    std::atomic<int> done = 0;
    pool.run(64, 3, [&](int64_t /*task*/) { ++done; });
    EXPECT_EQ(done, 64);
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
  }
}

/// Runs within a run, and of several threads: whoever finds the pool busy works alone.
TEST(ThreadPool, TakesRunsWhileItIsBusy) {
  ThreadPool pool;
  std::atomic<int> done = 0;
  std::vector<std::jthread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      for (int again = 0; again < 100; ++again)
        pool.run(4, 3, [&](int64_t /*task*/) { pool.run(3, 2, [&](int64_t /*inner*/) { ++done; }); });
    });
  }
  callers.clear();
  EXPECT_EQ(done, 4 * 100 * 4 * 3);
}

}  // namespace
}  // namespace detent

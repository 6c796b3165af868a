#include "detent/core/thread_pool.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cfenv>
#include <chrono>
#include <utility>
#include <vector>

#include "detent/core/interruption.h"
#include "detent/core/parallel.h"
#include "detent/core/sanitizers_for_test.h"

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

TEST(ThreadPool, LeavesOutTasksOfWhoIsInterrupted) {
  for (const int threads : {1, 3}) {
    ThreadPool pool;
    std::atomic<int> done = 0;
    const Interruptible stop([] { return true; });
    pool.run(1000, threads, [&](int64_t /*task*/) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ++done;
    });
    EXPECT_LT(done, 1000);
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

/// Work that tasks divide further is done by the thread that has the task, be it the pool's own.
TEST(ThreadPool, TasksDivideNothingAmongOtherThreads) {
  for (int again = 0; again < 50; ++again) {
    std::atomic<int> elsewhere = 0;
    ThreadPool::shared().run(16, 4, [&](int64_t /*task*/) {
      const std::thread::id here = std::this_thread::get_id();
      parallel_for(8, 1, [&](int64_t, int64_t) { elsewhere += std::this_thread::get_id() == here ? 0 : 1; });
    });
    ASSERT_EQ(elsewhere, 0);
  }
}

/// A thread that all others wait for finds its tasks done by them.
TEST(ThreadPool, SharesAreHelpedWith) {
  ThreadPool pool;
  for (int again = 0; again < 20; ++again) {
    std::atomic<int> done = 0;
    pool.run(40, 2, [&](int64_t task) {
      if (task == 0) {
        const auto begin = std::chrono::steady_clock::now();
        while (done < 39 && std::chrono::steady_clock::now() - begin < std::chrono::seconds(20))
          std::this_thread::yield();
        EXPECT_EQ(done, 39);
      }
      ++done;
    });
    ASSERT_EQ(done, 40);
  }
}

/// The thread that a job is waiting for may take longer than anybody stays awake.
TEST(ThreadPool, WaitsForLongTasks) {
  ThreadPool pool;
  for (int again = 0; again < 5; ++again) {
    std::atomic<int> done = 0;
    pool.run_all(2, 2, [&](int64_t task) {
      std::this_thread::sleep_for(std::chrono::milliseconds(task * 10));
      ++done;
    });
    ASSERT_EQ(done, 2);
  }
}

TEST(ThreadPool, ThreadsRoundToNearestWhateverTheirStarterDoes) {
  ThreadPool pool;
  std::fesetround(FE_UPWARD);
  std::vector<std::pair<std::thread::id, int>> modes(2);
  std::atomic<int> begun = 0;
  pool.run_all(2, 2, [&](int64_t task) {
    ++begun;
    const auto begin = std::chrono::steady_clock::now();
    while (begun < 2 && std::chrono::steady_clock::now() - begin < std::chrono::seconds(20))
      std::this_thread::yield();  // so that each thread has one
    modes[static_cast<size_t>(task)] = {std::this_thread::get_id(), std::fegetround()};
  });
  std::fesetround(FE_TONEAREST);
  for (const auto& [thread, mode] : modes)
    EXPECT_EQ(mode, thread == std::this_thread::get_id() ? FE_UPWARD : FE_TONEAREST);
}

TEST(ThreadPool, ChildrenOfForkHaveThreadsOfTheirOwn) {
  DETENT_SKIP_UNDER_SANITIZERS();
  const auto threads_of_a_run = [] {
    std::atomic<int> begun = 0;
    std::atomic<int> others = 0;
    const std::thread::id caller = std::this_thread::get_id();
    ThreadPool::shared().run_all(2, 2, [&](int64_t /*task*/) {
      ++begun;
      const auto begin = std::chrono::steady_clock::now();
      while (begun < 2 && std::chrono::steady_clock::now() - begin < std::chrono::seconds(20))
        std::this_thread::yield();
      others += std::this_thread::get_id() == caller ? 0 : 1;
    });
    return others + 1;
  };
  EXPECT_EQ(threads_of_a_run(), 2);
  const pid_t child = fork();
  if (child == 0) _exit(threads_of_a_run());
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 2);
  EXPECT_EQ(threads_of_a_run(), 2);
}

}  // namespace
}  // namespace detent

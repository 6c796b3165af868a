#include "detent/passes/analysis/waiting_runs.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "detent/core/parallel.h"
#include "detent/graph/builder.h"

namespace detent {
namespace {

/// With so many threads, until the end.
class Threads {
 public:
  explicit Threads(int count) { set_thread_count(count); }
  ~Threads() { set_thread_count(usual_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int usual_ = thread_count();
};

/// A network of one layer of so many weights.
Graph layer_of(int64_t weights) {
  GraphBuilder b("layer");
  return b.finish(b.linear("fc", b.input("x", {1}), 1, weights));
}

TEST(WaitingRuns, AreAsManyAsThreadsOfSmallNetworks) {
  const Threads threads(4);
  EXPECT_EQ(runs_at_once(layer_of(64)), 4);
  EXPECT_EQ(runs_at_once(layer_of(int64_t{33} << 20)), 1) << "executors compile it in parts";
  parallel_for(1, 1, [](int64_t, int64_t) { EXPECT_EQ(runs_at_once(layer_of(64)), 1); });
  const Threads one(1);
  EXPECT_EQ(runs_at_once(layer_of(64)), 1);
}

TEST(WaitingRuns, AreUnderWayTogether) {
  const Threads threads(2);
  std::atomic<int> under_way = 0;
  const auto meets_another = [&] {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (under_way < 2 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    return under_way == 2;
  };
  std::vector<char> met(2);
  run_at_once(2, [&](size_t i) {
    ++under_way;
    met[i] = meets_another() && in_parallel_for() ? 1 : 0;
  });
  EXPECT_EQ(met, std::vector<char>({1, 1}));
}

TEST(WaitingRuns, OneHasAllThreads) {
  int count = 0;
  run_at_once(1, [&](size_t i) {
    EXPECT_FALSE(in_parallel_for());
    EXPECT_EQ(i, 0U);
    ++count;
  });
  run_at_once(0, [&](size_t) { ++count; });
  EXPECT_EQ(count, 1);
}

}  // namespace
}  // namespace detent

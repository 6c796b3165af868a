#pragma once

#include <cstdint>
#include <functional>

namespace detent {

/// Threads that parallel_for uses, at least 1. The default is the number of processors this process may use.
int thread_count();
void set_thread_count(int count);

/// Calls `body(begin, end)` on disjoint ranges that cover [0, count). Ranges are cut at multiples of `grain`
/// whatever the number of threads, so a result computed per grain does not depend on it. The first exception
/// that a range throws is rethrown after all have ended. Calls from inside `body` run on the calling thread.
void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body);

/// Calls `body(task)` for each of `tasks`, in any order, on at most `threads` threads, of which the caller is
/// one. The body does not throw.
using TaskRunner = std::function<void(int64_t tasks, int threads, const std::function<void(int64_t)>& body)>;

/// While it lives, what this thread asks of parallel_for runs on the threads of a pool instead of new ones.
class UseTaskRunner {
 public:
  explicit UseTaskRunner(const TaskRunner& runner);
  ~UseTaskRunner();
  UseTaskRunner(const UseTaskRunner&) = delete;
  UseTaskRunner& operator=(const UseTaskRunner&) = delete;

 private:
  const TaskRunner* before_;
};

/// Whether the calling thread runs such a body, be it the only thread.
bool in_parallel_for();

}  // namespace detent

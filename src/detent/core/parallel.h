#pragma once

#include <cstdint>
#include <functional>

namespace detent {

/// Threads that parallel_for uses, at least 1. The default is the number of processors this process may use.
int thread_count();
void set_thread_count(int count);

/// Calls `body(begin, end)` on disjoint ranges that cover [0, count), on the shared pool
/// (core/thread_pool.h). Ranges are cut at multiples of `grain` whatever the number of threads, so a result
/// computed per grain does not depend on it. Rethrows the first exception after all ranges end. Nested calls
/// run on the calling thread.
void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body);

/// Whether the calling thread runs such a body, even alone.
bool in_parallel_for();

/// While alive, limits thread_count() on this thread to `count`; the innermost limit counts.
class LimitThreads {
 public:
  explicit LimitThreads(int count);
  ~LimitThreads();
  LimitThreads(const LimitThreads&) = delete;
  LimitThreads& operator=(const LimitThreads&) = delete;

 private:
  int before_;
};

}  // namespace detent

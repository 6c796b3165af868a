#include "detent/core/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <mutex>
#include <utility>

#include "detent/core/error.h"
#include "detent/core/interruption.h"
#include "detent/core/process_resources.h"
#include "detent/core/thread_pool.h"

namespace detent {
namespace {

std::atomic<int>& configured_count() {
  static std::atomic<int> count = processor_count();
  return count;
}

thread_local bool inside_parallel_for = false;
thread_local int thread_limit = std::numeric_limits<int>::max();

}  // namespace

int thread_count() { return std::min(configured_count().load(), thread_limit); }

void set_thread_count(int count) {
  DETENT_CHECK(count >= 1, "thread count {}", count);
  configured_count() = count;
}

LimitThreads::LimitThreads(int count) : before_(thread_limit) {
  DETENT_CHECK(count >= 1, "thread limit {}", count);
  thread_limit = count;
}
LimitThreads::~LimitThreads() { thread_limit = before_; }

bool in_parallel_for() { return inside_parallel_for; }

void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  DETENT_CHECK(grain >= 1, "grain {}", grain);
  if (count <= 0) return;
  const int64_t chunks = (count - 1) / grain + 1;
  const auto workers = static_cast<int>(std::min<int64_t>(thread_count(), chunks));

  std::atomic<int64_t> next_chunk = 0;
  std::mutex error_mutex;
  std::exception_ptr first_error;
  Interruptible::State* const interruption = interruption_of_this_thread();
  const auto work = [&] {
    const ShareInterruption share(interruption);
    const bool was_inside = std::exchange(inside_parallel_for, true);
    try {
      for (int64_t chunk = next_chunk++; chunk < chunks; chunk = next_chunk++) {
        check_interruption();
        body(chunk * grain, std::min(count, (chunk + 1) * grain));
      }
    } catch (...) {
      const std::lock_guard lock(error_mutex);
      if (!first_error) first_error = std::current_exception();
      next_chunk = chunks;
    }
    inside_parallel_for = was_inside;
  };

  if (workers <= 1 || inside_parallel_for)
    work();
  else
    ThreadPool::shared().run_all(workers, workers, [&](int64_t /*task*/) { work(); });
  if (first_error) std::rethrow_exception(first_error);
}

}  // namespace detent

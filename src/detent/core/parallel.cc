#include "detent/core/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "detent/core/error.h"
#include "detent/core/interruption.h"
#include "detent/core/processors.h"
#include "detent/core/thread_limit.h"

namespace detent {
namespace {

std::atomic<int>& configured_count() {
  static std::atomic<int> count = processor_count();
  return count;
}

thread_local bool inside_parallel_for = false;
thread_local int thread_limit = std::numeric_limits<int>::max();
thread_local const TaskRunner* task_runner = nullptr;

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

UseTaskRunner::UseTaskRunner(const TaskRunner& runner) : before_(std::exchange(task_runner, &runner)) {}
UseTaskRunner::~UseTaskRunner() { task_runner = before_; }

bool in_parallel_for() { return inside_parallel_for; }

// Threads are started per call: some 20 us each, against the milliseconds of work that are worth splitting.
// No idle pool then competes with libtorch's own threads for the processors.
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

  if (workers <= 1 || inside_parallel_for) {
    work();
  } else if (task_runner != nullptr) {
    (*task_runner)(workers, workers, [&](int64_t) { work(); });
  } else {
    std::vector<std::jthread> threads;
    try {
      for (int i = 1; i < workers; ++i) threads.emplace_back(work);
    } catch (const std::system_error& error) {
      next_chunk = chunks;  // those that run end soon
      fail("cannot start {} threads: {}; raise the limit on processes (ulimit -u)", workers - 1,
           error.code().message());
    }
    work();
  }
  if (first_error) std::rethrow_exception(first_error);
}

}  // namespace detent

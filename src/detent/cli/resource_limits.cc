#include "detent/cli/torch_command.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <future>
#include <system_error>
#include <thread>
#include <vector>

#include "detent/core/error.h"

namespace detent {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

uint64_t address_space_in_use() {
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

void check_address_space(int64_t threads) {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  const uint64_t needed = address_space_in_use() + address_space_for_torch(threads);
  if (needed <= limit.rlim_cur) return;
  fail(
      "the address space of this process is limited to {} MiB (ulimit -v), but libtorch on {} thread{} needs "
      "at least {} MiB, and networks and data more: raise the limit{}",
      limit.rlim_cur / kMiB, threads, threads == 1 ? "" : "s", (needed + kMiB - 1) / kMiB,
      threads == 1 ? "" : ", or take fewer threads (--num-threads)");
}

/// Starts as many threads as will be there at once, and ends them. There are `fewest` whatever the options.
void check_threads(int64_t count, int64_t fewest) {
  std::promise<void> promise;
  const std::shared_future<void> end = promise.get_future().share();
  std::vector<std::thread> threads;
  std::string fault;
  try {
    while (static_cast<int64_t>(threads.size()) < count) threads.emplace_back([end] { end.wait(); });
  } catch (const std::system_error& error) {
    fault = error.code().message();
  }
  const size_t started = threads.size();
  promise.set_value();
  for (std::thread& thread : threads) thread.join();
  if (fault.empty()) return;
  fail(
      "of {} threads only {} can be started ({}): raise the limit on processes (ulimit -u, or the "
      "container's){}",
      count, started, fault, count > fewest ? ", or take fewer (--num-threads 1 --num-workers 0)" : "");
}

/// libtorch starts a pool for all processors when it is told how many threads it may use.
int64_t threads_of_pool() { return std::max<int64_t>(std::thread::hardware_concurrency(), 1) - 1; }

}  // namespace

uint64_t address_space_for_torch(int64_t threads) {
  // The most that libtorch 1.13 and OpenBLAS 0.3.21 took on two processors, all threads multiplying at once:
  // 941 MiB of one thread, 1,393 of two, 2,225 of four, 3,945 of eight. Each further processor is a stack in
  // libtorch's pool. With a tenth less OpenBLAS waits for ever, or the process ends in a segmentation fault.
  const int64_t mebibytes = 930 + 440 * (threads - 1) + 8 * threads_of_pool();
  return static_cast<uint64_t>(mebibytes) * kMiB;
}

void check_thread_limit(int64_t threads, int64_t loader_threads) {
  check_threads(threads - 1 + loader_threads, 0);
}

void check_resource_limits(int64_t threads, int64_t loader_threads) {
  check_address_space(threads);
  // The pool's, OpenMP's, OpenBLAS's and our own.
  check_threads(threads_of_pool() + 3 * (threads - 1) + loader_threads, threads_of_pool());
}

}  // namespace detent

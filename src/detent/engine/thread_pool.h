#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "detent/core/parallel.h"

namespace detent {

/// Threads that wait for the next piece of a run: awake for some tens of microseconds, then asleep. Shared by
/// all programs of the process; who finds them busy computes alone.
class ThreadPool {
 public:
  static ThreadPool& shared();

  ThreadPool() = default;
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  /// Calls `body(task)` for each of `tasks`, in any order, on at most `threads` threads, of which the caller
  /// is one. The body must not throw. Each thread begins with a share of neighbouring tasks, the same in each
  /// run, and then helps the others: what one step of a network leaves in a core's cache the next finds
  /// there.
  void run(int64_t tasks, int threads, const std::function<void(int64_t)>& body);

  /// run(), for what divides its work by parallel_for; threads of the pool do so with it too.
  const TaskRunner& runner() const { return runner_; }

 private:
  void work(size_t index);
  bool join_job(uint64_t state, size_t index);
  void do_tasks(size_t share);

  /// Tasks that one thread begins with.
  struct alignas(64) Share {
    std::atomic<int64_t> next = 0;
    int64_t end = 0;
  };

  // Job number, whether it takes more threads, and how many are at it.
  static constexpr uint64_t kMember = 1;
  static constexpr uint64_t kMembers = 0xFFFF;
  static constexpr uint64_t kOpen = 0x10000;
  static constexpr uint64_t kNumber = 0x20000;

  std::atomic<bool> busy_ = false;
  std::atomic<uint64_t> state_ = 0;
  std::atomic<uint64_t> wake_ = 0;  // changes with each job, and at the end
  std::atomic<bool> stops_ = false;
  // Belongs to the job.
  std::deque<Share> shares_;  // the caller's first; those of the job and maybe more
  std::atomic<size_t> helpers_ = 0;
  const std::function<void(int64_t)>* body_ = nullptr;

  const TaskRunner runner_ = [this](int64_t tasks, int threads, const std::function<void(int64_t)>& body) {
    run(tasks, threads, body);
  };
  std::vector<std::thread> threads_;
};

}  // namespace detent

#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

namespace detent {

/// Worker threads that spin for some tens of microseconds, then sleep. The process shares one pool; a caller
/// that finds it busy computes alone. Nobody waits for a thread that has not started to help, so a loaded
/// machine delays no run.
class ThreadPool {
 public:
  /// The process's pool; a child of fork() gets another.
  static ThreadPool& shared();

  ThreadPool() = default;
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  /// Calls `body(task)` for all tasks, in any order, on at most `threads` threads, the caller included.
  /// `body` must not throw. Each thread starts with a share of neighbouring tasks, the same in each run so
  /// that its cache stays useful, then helps others. On interruption (core/interruption.h) pending tasks are
  /// skipped; the caller then throws.
  void run(int64_t tasks, int threads, const std::function<void(int64_t)>& body);
  /// The same without interruption.
  void run_all(int64_t tasks, int threads, const std::function<void(int64_t)>& body);

 private:
  void work(size_t index);
  void grow(size_t threads);
  void leave_job();
  void wait_for_members();
  bool join_job(uint64_t state, size_t index);
  void do_tasks(size_t share);

  /// Tasks a thread starts with.
  struct alignas(64) Share {
    std::atomic<int64_t> next = 0;
    int64_t end = 0;
  };

  // Job number, whether it accepts threads, and how many work on it.
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
  std::vector<std::thread> threads_;
};

}  // namespace detent

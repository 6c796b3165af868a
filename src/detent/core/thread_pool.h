#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

namespace detent {

/// Threads that wait for the next piece of a run: awake for some tens of microseconds, then asleep. All work
/// of the process shares one pool; who finds it busy computes alone. Nobody waits for a thread that has not
/// begun to help, so that work on a loaded machine ends when the threads that run have done it.
class ThreadPool {
 public:
  /// The pool of the process; a child of fork() has another one.
  static ThreadPool& shared();

  ThreadPool() = default;
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  /// Calls `body(task)` for each of `tasks`, in any order, on at most `threads` threads, of which the caller
  /// is one; on those there are where the system starts no more. The body must not throw. Each thread begins
  /// with a share of neighbouring tasks, the same in each run, and then helps the others: what one step of a
  /// network leaves in a core's cache the next finds there. Where the caller is interrupted
  /// (core/interruption.h), tasks that have not begun are left out; the caller throws after them.
  void run(int64_t tasks, int threads, const std::function<void(int64_t)>& body);
  /// The same, all tasks whatever happens.
  void run_all(int64_t tasks, int threads, const std::function<void(int64_t)>& body);

 private:
  void work(size_t index);
  void grow(size_t threads);
  void leave_job();
  void wait_for_members();
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
  std::vector<std::thread> threads_;
};

}  // namespace detent

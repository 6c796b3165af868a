#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

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
  /// is one. The body must not throw.
  void run(int64_t tasks, int threads, const std::function<void(int64_t)>& body);

 private:
  void work(size_t index);
  bool join_job(uint64_t state, size_t index);
  void do_tasks();

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
  std::atomic<int64_t> next_ = 0;
  int64_t tasks_ = 0;
  std::atomic<size_t> helpers_ = 0;
  const std::function<void(int64_t)>* body_ = nullptr;

  std::vector<std::thread> threads_;
};

}  // namespace detent

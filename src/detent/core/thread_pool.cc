#include "detent/core/thread_pool.h"

#include <pthread.h>

#include <algorithm>
#include <cfenv>
#include <system_error>

#include "detent/core/interruption.h"
#include "detent/core/parallel.h"

namespace detent {
namespace {

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

constexpr int kSpins = 1500;  // some tens of microseconds

}  // namespace

// Never destroyed, for nobody waits for sleeping threads at the end of the process. After fork() the child
// has none of the threads, and begins with a pool of its own.
ThreadPool& ThreadPool::shared() {
  static std::deque<ThreadPool>& pools = *[] {
    auto* first = new std::deque<ThreadPool>(1);
    pthread_atfork(nullptr, nullptr, [] { pools.emplace_back(); });
    return first;
  }();
  return pools.back();
}

ThreadPool::~ThreadPool() {
  stops_ = true;
  ++wake_;
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::do_tasks(size_t share) {
  const size_t count = helpers_ + 1;
  for (size_t i = 0; i < count; ++i) {
    Share& from = shares_[(share + i) % count];
    for (int64_t task = from.next++; task < from.end; task = from.next++) (*body_)(task);
  }
}

/// Whether the job of `state` could still be joined.
bool ThreadPool::join_job(uint64_t state, size_t index) {
  while ((state & kOpen) != 0) {
    if (index >= helpers_) return false;
    if (state_.compare_exchange_weak(state, state + kMember)) return true;
  }
  return false;
}

/// A thread begins with the floating-point environment of who starts it; the pool's all round to nearest and
/// keep subnormals, whoever that was.
void ThreadPool::work(size_t index) {
  std::fesetenv(FE_DFL_ENV);
  uint64_t seen = 0;
  while (!stops_) {
    uint64_t now = wake_;
    for (int spin = 0; now == seen && spin < kSpins; ++spin) {
      pause();
      now = wake_;
    }
    if (now == seen) {
      wake_.wait(seen);
      continue;
    }
    seen = now;
    if (!join_job(state_, index)) continue;
    do_tasks(index + 1);
    leave_job();
  }
}

void ThreadPool::leave_job() {
  const uint64_t left = state_ -= kMember;
  if ((left & (kMembers | kOpen)) == 0) state_.notify_one();
}

/// Waits for threads that still work: asleep where they take long.
void ThreadPool::wait_for_members() {
  int spins = 0;
  for (uint64_t state = state_; (state & kMembers) != 0; state = state_) {
    if (++spins < kSpins)
      pause();
    else
      state_.wait(state);
  }
}

void ThreadPool::grow(size_t threads) {
  while (threads_.size() < threads) {
    try {
      threads_.emplace_back([this, index = threads_.size()] { work(index); });
    } catch (const std::system_error&) {
      break;  // those there are do it
    }
  }
}

void ThreadPool::run(int64_t tasks, int threads, const std::function<void(int64_t)>& body) {
  Interruptible::State* const interruption = interruption_of_this_thread();
  if (interruption == nullptr) return run_all(tasks, threads, body);
  run_all(tasks, threads, [&body, interruption](int64_t task) {
    if (!is_interrupted(interruption)) body(task);
  });
}

void ThreadPool::run_all(int64_t tasks, int threads, const std::function<void(int64_t)>& body) {
  const auto wanted = static_cast<size_t>(
      std::clamp<int64_t>(std::min<int64_t>(threads, tasks), 1, static_cast<int64_t>(kMembers)));
  if (wanted == 1 || in_parallel_for() || busy_.exchange(true)) {
    for (int64_t task = 0; task < tasks; ++task) body(task);
    return;
  }
  grow(wanted - 1);
  while (shares_.size() < wanted) shares_.emplace_back();
  for (size_t i = 0; i < wanted; ++i) {
    shares_[i].next = tasks * static_cast<int64_t>(i) / static_cast<int64_t>(wanted);
    shares_[i].end = tasks * static_cast<int64_t>(i + 1) / static_cast<int64_t>(wanted);
  }
  body_ = &body;
  helpers_ = wanted - 1;
  state_ += kNumber + kOpen;
  ++wake_;
  wake_.notify_all();
  do_tasks(0);
  state_ -= kOpen;
  wait_for_members();
  busy_ = false;
}

}  // namespace detent

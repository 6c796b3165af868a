#include "detent/engine/thread_pool.h"

#include <algorithm>
#include <system_error>

#include "detent/core/interruption.h"

namespace detent {
namespace {

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

constexpr int kSpins = 1500;  // some tens of microseconds

}  // namespace

ThreadPool& ThreadPool::shared() {
  static ThreadPool pool;
  return pool;
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

void ThreadPool::work(size_t index) {
  const UseTaskRunner use(runner_);
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
    state_ -= kMember;
  }
}

// Where the caller is interrupted, tasks that have not begun are left out; the caller throws behind them.
void ThreadPool::run(int64_t tasks, int threads, const std::function<void(int64_t)>& given) {
  Interruptible::State* const interruption = interruption_of_this_thread();
  const std::function<void(int64_t)> unless_interrupted = [&given, interruption](int64_t task) {
    if (!is_interrupted(interruption)) given(task);
  };
  const std::function<void(int64_t)>& body = interruption == nullptr ? given : unless_interrupted;
  const auto wanted = static_cast<size_t>(std::max<int64_t>(std::min<int64_t>(threads, tasks), 1));
  if (wanted == 1 || in_parallel_for() || busy_.exchange(true)) {
    for (int64_t task = 0; task < tasks; ++task) body(task);
    return;
  }
  while (threads_.size() + 1 < wanted) {
    try {
      threads_.emplace_back([this, index = threads_.size()] { work(index); });
    } catch (const std::system_error&) {
      break;  // those there are do it
    }
  }
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
  while ((state_ & kMembers) != 0) pause();
  busy_ = false;
}

}  // namespace detent

#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "detent/core/error.h"

namespace detent {

/// Prefetches make(0), ..., make(count - 1) on threads and returns them in order; at most 2 * threads results
/// wait. With 0 threads `take` computes them. `make` is called concurrently. The destructor waits for running
/// calls.
template <class Item>
class ReadAhead {
 public:
  ReadAhead(int64_t count, int64_t threads, std::function<Item(int64_t)> make)
      : count_(count), most_waiting_(2 * threads), make_(std::move(make)) {
    try {
      for (int64_t i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
    } catch (const std::system_error& error) {
      stop();
      fail("cannot start {} threads that load data (--num-workers): {}", threads, error.code().message());
    }
  }
  ~ReadAhead() { stop(); }
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  /// The next result; throws what its `make` threw.
  Item take() {
    DETENT_CHECK(taken_ < count_, "{} of {} are taken", taken_, count_);
    if (threads_.empty()) return make_(taken_++);
    Slot slot;
    {
      std::unique_lock lock(mutex_);
      is_made_.wait(lock, [this] { return !slots_.empty() && slots_.front().is_made; });
      slot = std::move(slots_.front());
      slots_.pop_front();
      ++taken_;
    }
    has_room_.notify_one();
    if (slot.error) std::rethrow_exception(slot.error);
    return std::move(*slot.item);
  }

 private:
  struct Slot {
    bool is_made = false;
    std::optional<Item> item;
    std::exception_ptr error;
  };

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      given_out_ = count_;
    }
    has_room_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      has_room_.wait(lock, [this] { return given_out_ == count_ || given_out_ - taken_ < most_waiting_; });
      if (given_out_ == count_) return;
      const int64_t index = given_out_++;
      slots_.emplace_back();
      lock.unlock();
      Slot made = make_slot(index);
      lock.lock();
      // A slot is taken only after it is made, so this one is still in the queue.
      slots_[static_cast<size_t>(index - taken_)] = std::move(made);
      is_made_.notify_one();
    }
  }

  Slot make_slot(int64_t index) {
    Slot slot{.is_made = true, .item = {}, .error = {}};
    try {
      slot.item = make_(index);
    } catch (...) {
      slot.error = std::current_exception();
    }
    return slot;
  }

  int64_t count_;
  int64_t most_waiting_;
  std::function<Item(int64_t)> make_;
  std::mutex mutex_;
  std::condition_variable has_room_;
  std::condition_variable is_made_;
  int64_t given_out_ = 0;   // to threads
  int64_t taken_ = 0;       // by the consumer
  std::deque<Slot> slots_;  // of the results taken_ to given_out_ - 1
  std::vector<std::thread> threads_;
};

}  // namespace detent

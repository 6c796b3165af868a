#pragma once

#include <atomic>
#include <cstdint>
#include <limits>

namespace detent {

/// The least of the indices that threads report.
class FirstIndex {
 public:
  void report(int64_t index) {
    int64_t seen = least_.load();
    while (index < seen && !least_.compare_exchange_weak(seen, index)) {
    }
  }

  bool found() const { return least_ != kNone; }
  int64_t get() const { return least_; }

 private:
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  std::atomic<int64_t> least_ = kNone;
};

}  // namespace detent

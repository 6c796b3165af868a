#pragma once

namespace detent {

/// While it lives, thread_count() is at most `count` on this thread; the innermost of several counts.
class LimitThreads {
 public:
  explicit LimitThreads(int count);
  ~LimitThreads();
  LimitThreads(const LimitThreads&) = delete;
  LimitThreads& operator=(const LimitThreads&) = delete;

 private:
  int before_;
};

}  // namespace detent

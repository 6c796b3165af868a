#pragma once

#include <functional>
#include <memory>

namespace detent {

/// While it lives, long work that this thread does, alone or with others by parallel_for, ends early with
/// Interrupted where `asked` says so. It is called on this thread, some twenty times a second at most,
/// between pieces of work: no file is left half written and no lock held.
class Interruptible {
 public:
  explicit Interruptible(std::function<bool()> asked);
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

  struct State;

 private:
  std::unique_ptr<State> state_;
  State* before_;
};

/// What the thread's work heeds; nullptr where nothing can interrupt it.
Interruptible::State* interruption_of_this_thread();

/// While it lives, this thread's work ends with that of the thread that `state` is from.
class ShareInterruption {
 public:
  explicit ShareInterruption(Interruptible::State* state);
  ~ShareInterruption();
  ShareInterruption(const ShareInterruption&) = delete;
  ShareInterruption& operator=(const ShareInterruption&) = delete;

 private:
  Interruptible::State* before_;
};

/// Whether the work of `state`, which is not nullptr, is to end. For what may not throw: it leaves out the
/// rest of its work, and check_interruption() throws after it.
bool is_interrupted(Interruptible::State* state);

/// Throws Interrupted where the work is to end.
void check_interruption();

}  // namespace detent

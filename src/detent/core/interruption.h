#pragma once

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

namespace detent {

/// While alive, records a first SIGINT (Ctrl-C), SIGTERM or SIGHUP so that the program can stop safely; a
/// second one ends the process at once. Signals ignored at start-up (`nohup`, background jobs) stay ignored.
/// At most one instance at a time.
class StopSignals {
 public:
  /// `notice` is written to standard error when the first signal comes.
  explicit StopSignals(std::string notice = "");
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The signal recorded by a live StopSignals, or 0.
  static int received();
};

/// "SIGINT", "SIGTERM" or "SIGHUP".
std::string signal_name(int signal);

/// Ends a command stopped by a signal, after saving. The program prints the message and exits with 128 +
/// signal, as shells do.
class Interrupted : public std::runtime_error {
 public:
  Interrupted(int signal, const std::string& message) : std::runtime_error(message), signal_(signal) {}
  int signal() const { return signal_; }

 private:
  int signal_;
};

/// While alive, long work of this thread, parallel_for included, throws Interrupted once `asked` returns
/// true. It is called on this thread at most some twenty times a second, between pieces of work: no file is
/// half written and no lock held.
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

/// The thread's interruption; nullptr if nothing can interrupt it.
Interruptible::State* interruption_of_this_thread();

/// While alive, this thread's work is interrupted together with that of the thread of `state`.
class ShareInterruption {
 public:
  explicit ShareInterruption(Interruptible::State* state);
  ~ShareInterruption();
  ShareInterruption(const ShareInterruption&) = delete;
  ShareInterruption& operator=(const ShareInterruption&) = delete;

 private:
  Interruptible::State* before_;
};

/// Whether the work of `state` (not nullptr) should end. For code that must not throw: it skips its remaining
/// work, and check_interruption() throws afterwards.
bool is_interrupted(Interruptible::State* state);

/// Throws Interrupted if the work should end.
void check_interruption();

}  // namespace detent

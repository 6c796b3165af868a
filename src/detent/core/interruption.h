#pragma once

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

namespace detent {

/// While it lives, a first SIGINT (Ctrl-C), SIGTERM or SIGHUP (the terminal was closed) is only noted, so
/// that the program can stop where it loses nothing; a second one, of any kind, ends the process at once.
/// Signals that the process was told to ignore (`nohup`, a shell's background jobs) stay ignored. At most one
/// such object at a time.
class StopSignals {
 public:
  /// `notice` is written to standard error when the first signal comes.
  explicit StopSignals(std::string notice = "");
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The signal that has come to a StopSignals that is alive, or 0.
  static int received();
};

/// "SIGINT", "SIGTERM" or "SIGHUP".
std::string signal_name(int signal);

/// Ends a command that a signal stopped, after it has saved what there was to save. The program prints the
/// message and exits with 128 + signal, as shells do.
class Interrupted : public std::runtime_error {
 public:
  Interrupted(int signal, const std::string& message) : std::runtime_error(message), signal_(signal) {}
  int signal() const { return signal_; }

 private:
  int signal_;
};

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

/// Interruption that the thread's work heeds; nullptr where nothing can interrupt it.
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

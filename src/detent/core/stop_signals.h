#pragma once

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

}  // namespace detent

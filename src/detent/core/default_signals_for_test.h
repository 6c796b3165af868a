#pragma once

#include <csignal>
#include <vector>

namespace detent {

/// Signals that stop a program act as the system has it though the shell that started the tests ignores them
/// (nohup: SIGHUP; a script's `&`: SIGINT).
class DefaultSignals {
 public:
  DefaultSignals() {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
      const auto before = std::signal(signal, SIG_DFL);
      if (before == SIG_IGN) {
        ignored_.push_back(signal);
      } else {
        std::signal(signal, before);
      }
    }
  }
  ~DefaultSignals() {
    for (const int signal : ignored_) std::signal(signal, SIG_IGN);
  }
  DefaultSignals(const DefaultSignals&) = delete;
  DefaultSignals& operator=(const DefaultSignals&) = delete;

 private:
  std::vector<int> ignored_;
};

}  // namespace detent

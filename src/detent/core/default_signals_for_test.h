#pragma once

#include <csignal>
#include <vector>

namespace detent {

/// Restores default actions of signals that the shell running the tests may ignore (nohup: SIGHUP; a script's
/// `&`: SIGINT).
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

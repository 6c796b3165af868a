#pragma once

#include <array>
#include <csignal>
#include <cstddef>

namespace detent {

/// Signals that stop a program act as the system has it, whatever the shell that started the tests ignores
/// (nohup: SIGHUP; a script's `&`: SIGINT).
class DefaultSignals {
 public:
  DefaultSignals() {
    for (size_t i = 0; i < kSignals.size(); ++i) before_[i] = std::signal(kSignals[i], SIG_DFL);
  }
  ~DefaultSignals() {
    for (size_t i = 0; i < kSignals.size(); ++i) std::signal(kSignals[i], before_[i]);
  }
  DefaultSignals(const DefaultSignals&) = delete;
  DefaultSignals& operator=(const DefaultSignals&) = delete;

 private:
  static constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};
  std::array<void (*)(int), kSignals.size()> before_ = {};
};

}  // namespace detent

#pragma once

#include <unistd.h>

namespace detent {

/// A port of this machine that no other test takes: those of processes that run side by side, whose numbers
/// are close, do not overlap, and the system gives none below 32768 to connections.
inline int next_port_for_test() {
  constexpr int kFirst = 12000;
  constexpr int kOfProcess = 40;
  constexpr int kProcesses = 500;
  static int port = kFirst + getpid() % kProcesses * kOfProcess;
  return port++;
}

}  // namespace detent

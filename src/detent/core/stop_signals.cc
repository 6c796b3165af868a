#include "detent/core/interruption.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <utility>

#include "detent/core/error.h"

namespace detent {
namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};

std::atomic<int> received_signal = 0;
std::atomic<bool> alive = false;
std::string notice_text;  // does not change while the handler is installed
std::array<struct sigaction, kSignals.size()> actions_before;

static_assert(std::atomic<int>::is_always_lock_free, "the handler may not take a lock");

extern "C" void note_signal(int signal) {
  int none = 0;
  if (received_signal.compare_exchange_strong(none, signal)) {
    const int errno_before = errno;
    // Where it cannot be written there is nobody to tell.
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, notice_text.data(), notice_text.size());
    errno = errno_before;
    return;
  }
  // The handlers in force before end the process: the handler does not block its signal. But the default of
  // the first process of a container is to ignore signals.
  for (size_t i = 0; i < kSignals.size(); ++i) {
    if (kSignals[i] == signal) sigaction(signal, &actions_before[i], nullptr);
  }
  std::raise(signal);
  _exit(128 + signal);
}

}  // namespace

StopSignals::StopSignals(std::string notice) {
  DETENT_CHECK(!alive.exchange(true), "two objects that catch signals");
  notice_text = std::move(notice);
  received_signal = 0;
  struct sigaction action {};
  action.sa_handler = note_signal;
  // A second signal counts even while the notice of the first waits for a reader that does not read.
  action.sa_flags = SA_RESTART | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &actions_before[i]);
    if (actions_before[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &action, nullptr);
  }
}

StopSignals::~StopSignals() {
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &actions_before[i], nullptr);
  received_signal = 0;
  alive = false;
}

int StopSignals::received() { return received_signal; }

std::string signal_name(int signal) {
  if (signal == SIGHUP) return "SIGHUP";
  return signal == SIGINT ? "SIGINT" : "SIGTERM";
}

}  // namespace detent

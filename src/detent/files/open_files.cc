#include "detent/files/open_files.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <string_view>
#include <utility>

namespace detent {
namespace {

constexpr std::array kEndingSignals = {SIGINT, SIGTERM, SIGHUP};

// Signal handlers read the list, so it takes a lock that they can take too: whoever holds it has all signals
// blocked, so that no handler waits for the thread that it interrupted, and allocates no memory, so that it
// does not wait for a thread that a handler interrupted in malloc.
std::atomic_flag list_is_in_use = ATOMIC_FLAG_INIT;
OpenFile* first_file = nullptr;
std::array<struct sigaction, kEndingSignals.size()> ending_before;
struct sigaction bus_error_before;

void wait_for_list() {
  while (list_is_in_use.test_and_set(std::memory_order_acquire)) sched_yield();
}

void release_list() { list_is_in_use.clear(std::memory_order_release); }

class ListLock {
 public:
  ListLock() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
    wait_for_list();
  }
  ~ListLock() {
    release_list();
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  ListLock(const ListLock&) = delete;
  ListLock& operator=(const ListLock&) = delete;

 private:
  sigset_t before_{};
};

void write_error(std::string_view text) {
  // Where it cannot be written there is nobody to tell.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

/// Work of the handlers, with the list locked.
struct OpenFileHandlers {
  static void remove_temporary_files() {
    const pid_t self = getpid();
    for (const OpenFile* file = first_file; file != nullptr; file = file->next_) {
      if (!file->temporary_ || file->process_ != self) continue;
      if (*file->temporary_ == OpenFile::Temporary::kFile) {
        unlink(file->path_.c_str());
      } else {
        remove_folder_in_handler(file->path_.c_str());
      }
    }
  }

  static const OpenFile* mapping_of(const void* address) {
    for (const OpenFile* file = first_file; file != nullptr; file = file->next_) {
      const auto* begin = file->mapping_.data();
      if (begin <= address && address < begin + file->mapping_.size()) return file;
    }
    return nullptr;
  }
};

namespace {

extern "C" void end_by_signal(int signal) {
  // Not released any more: no other thread makes a temporary file before the process ends.
  wait_for_list();
  OpenFileHandlers::remove_temporary_files();
  for (size_t i = 0; i < kEndingSignals.size(); ++i) {
    if (kEndingSignals[i] == signal) sigaction(signal, &ending_before[i], nullptr);
  }
  // Blocked until the handler returns.
  raise(signal);
}

extern "C" void explain_bus_error(int signal, siginfo_t* info, void* /*context*/) {
  wait_for_list();
  const OpenFile* file = OpenFileHandlers::mapping_of(info->si_addr);
  if (file == nullptr) {
    release_list();
    sigaction(signal, &bus_error_before, nullptr);
    return;  // to the instruction that failed, which fails again
  }
  OpenFileHandlers::remove_temporary_files();
  write_error("detent: error: ");
  write_error(file->path().c_str());
  write_error(" was truncated while it was read\n");
  _exit(1);
}

}  // namespace

OpenFile::OpenFile(std::string path, const std::function<bool()>& create, Temporary kind)
    : path_(std::move(path)), temporary_(kind), process_(getpid()) {
  const ListLock lock;
  if (create()) enter();
}

OpenFile::OpenFile(std::string path, std::span<const std::byte> mapping)
    : path_(std::move(path)), mapping_(mapping), process_(getpid()) {
  const ListLock lock;
  enter();
}

void OpenFile::enter() {
  is_listed_ = true;
  next_ = first_file;
  if (first_file != nullptr) first_file->previous_ = this;
  first_file = this;
}

OpenFile::~OpenFile() {
  const ListLock lock;
  if (!is_listed_) return;
  (previous_ == nullptr ? first_file : previous_->next_) = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
}

std::string OpenFile::mapped_at(const void* address) {
  const OpenFile* file = nullptr;
  {
    const ListLock lock;
    file = OpenFileHandlers::mapping_of(address);
  }
  return file == nullptr ? "" : file->path();
}

void handle_signals_for_open_files() {
  static std::atomic_flag is_done = ATOMIC_FLAG_INIT;
  if (is_done.test_and_set()) return;
  struct sigaction action {};
  sigfillset(&action.sa_mask);
  action.sa_handler = end_by_signal;
  for (size_t i = 0; i < kEndingSignals.size(); ++i) {
    sigaction(kEndingSignals[i], nullptr, &ending_before[i]);
    if (ending_before[i].sa_handler != SIG_IGN) sigaction(kEndingSignals[i], &action, nullptr);
  }
  action.sa_sigaction = explain_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, &bus_error_before);
}

}  // namespace detent

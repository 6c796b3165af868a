#pragma once

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include <nanobind/nanobind.h>

#include "detent/cli/network/study_folder.h"
#include "detent/core/interruption.h"
#include "detent/core/value.h"

namespace detent::python {

/// From now on, what the libraries log is kept.
void keep_messages();
/// Warnings among what was kept.
List pending_warnings();
/// Hands what was kept to Python's logger "detent". Throws nanobind::python_error where Ctrl-C comes
/// meanwhile; other errors of its handlers are reported as unraisable.
void deliver_messages();

/// Runs `work`, which touches no Python object, without the interpreter's lock. Ctrl-C ends it with what
/// Python's handler raises; what it logged reaches Python's logger before that.
template <class Work>
auto without_lock(const Work& work) {
  using Result = decltype(work());
  std::optional<nanobind::python_error> raised;
  std::optional<Result> result;
  try {
    const nanobind::gil_scoped_release release;
    const Interruptible interruptible([&] {
      const nanobind::gil_scoped_acquire lock;
      if (PyErr_CheckSignals() == 0) return false;
      raised.emplace();
      return true;
    });
    result.emplace(work());
  } catch (...) {
    deliver_messages();
    if (!raised) throw;
  }
  if (!raised) {
    deliver_messages();
  } else {  // also where the work had no more to skip
    raised->restore();
    throw nanobind::python_error();
  }
  return std::move(*result);
}

/// For what passes and searches write beside the network, which the module gives as results.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::filesystem::path path() const { return path_; }

 private:
  std::string path_;
};

/// Waits for another thread's work with the generator that all commands draw from, as long as nobody
/// interrupts.
std::unique_lock<std::timed_mutex> lock_generator();

/// Arguments of a search or comparison beside its options.
struct StudyCall {
  int64_t seed = 0;
  int64_t batch_size = 0;
  int64_t num_workers = 0;
  std::string folder;  // "": a temporary one
  bool resume = false;
  bool overwrite = false;
  std::string report;  // a page; "": none
};

/// The folder of the call, locked while it lives; nothing where the study is to leave no files. `command`:
/// the one that does the same.
std::optional<StudyFolder> claimed_folder(const StudyCall& call, const std::string& command,
                                          const StudyFiles& files, const Table& settings);

}  // namespace detent::python

#pragma once

#include <csignal>
#include <optional>
#include <utility>

#include <nanobind/nanobind.h>

#include "detent/core/interruption.h"
#include "detent/core/value.h"

namespace detent::python {

/// From now on, what the libraries log is kept.
void keep_messages();
/// Warnings among what was kept.
List pending_warnings();
/// Hands what was kept to Python's logger "detent".
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
  } catch (const Interrupted&) {
    deliver_messages();
    if (!raised) throw;
    raised->restore();
    throw nanobind::python_error();
  } catch (...) {
    deliver_messages();
    throw;
  }
  deliver_messages();
  return std::move(*result);
}

}  // namespace detent::python

#pragma once

#include <exception>
#include <new>
#include <string>

#include "detent/core/error.h"
#include "detent/engine.h"

namespace detent {

/// Notes what the calling thread's detent_error_text() gives. Returns the status.
detent_status failed(detent_status status, const std::string& text) noexcept;

/// Runs a function of the C interface: what is thrown becomes a status. `fault` is that of errors that the
/// caller's data is at fault for.
template <class Work>
detent_status guarded(detent_status fault, const Work& work) noexcept {
  try {
    return work();
  } catch (const Error& error) {
    return failed(fault, error.what());
  } catch (const std::bad_alloc&) {
    return failed(DETENT_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& error) {
    return failed(DETENT_INTERNAL, error.what());
  } catch (...) {
    return failed(DETENT_INTERNAL, "unknown error");
  }
}

}  // namespace detent

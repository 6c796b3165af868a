#pragma once

#include <exception>
#include <new>
#include <string>

#include "detent/core/error.h"
#include "detent/engine.h"

namespace detent {

/// Sets the calling thread's detent_error_text(). Returns the status.
detent_status failed(detent_status status, const std::string& text) noexcept;

/// Runs a function of the C interface and turns exceptions into a status; `fault` is that of invalid data.
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

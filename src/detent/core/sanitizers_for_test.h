#pragma once

#include "detent/core/process_resources.h"

namespace detent {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kSignalsAreDelayed = true;
/// Shadow memory doubles what a program touches, mapped files included.
inline constexpr bool kMemoryHasShadow = true;
#else
inline constexpr bool kSignalsAreDelayed = false;
inline constexpr bool kMemoryHasShadow = false;
#endif

/// Repetitions of a test: a quarter under sanitizers, which are ten times slower.
template <class T>
constexpr T fewer_under_sanitizers(T count) {
  return kSanitizersTakeMemory ? count / 4 : count;
}

}  // namespace detent

/// Call first in a test of signals that arrive while one is handled.
#define DETENT_SKIP_WHERE_SIGNALS_ARE_DELAYED() \
  if constexpr (kSignalsAreDelayed)             \
  GTEST_SKIP() << "ThreadSanitizer keeps signals back until the program calls something"

/// Call first in a test that limits memory, faults, or starts threads after fork().
#define DETENT_SKIP_UNDER_SANITIZERS() \
  if constexpr (kSanitizersTakeMemory) \
  GTEST_SKIP() << "the sanitizer needs terabytes of address space, and handles faults and forks itself"

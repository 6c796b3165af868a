#include "detent/formats/float_environment.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#elif !defined(__aarch64__)
#include <cfenv>
#endif

namespace detent {

// Defined out of line: an opaque call is a fence that the compiler moves no arithmetic on memory across.
#if defined(__x86_64__)

DefaultFloatEnvironment::DefaultFloatEnvironment() : saved_(_mm_getcsr()) {
  constexpr unsigned kAllExceptionsMasked = 0x1F80;
  _mm_setcsr(kAllExceptionsMasked);
}
DefaultFloatEnvironment::~DefaultFloatEnvironment() { _mm_setcsr(static_cast<unsigned>(saved_)); }

#elif defined(__aarch64__)

DefaultFloatEnvironment::DefaultFloatEnvironment() {
  asm volatile("mrs %0, fpcr" : "=r"(saved_));
  asm volatile("msr fpcr, %0" : : "r"(uint64_t{0}));
}
DefaultFloatEnvironment::~DefaultFloatEnvironment() { asm volatile("msr fpcr, %0" : : "r"(saved_)); }

#else

DefaultFloatEnvironment::DefaultFloatEnvironment() : saved_(static_cast<uint64_t>(std::fegetround())) {
  std::fesetround(FE_TONEAREST);
}
DefaultFloatEnvironment::~DefaultFloatEnvironment() { std::fesetround(static_cast<int>(saved_)); }

#endif

}  // namespace detent

#include "detent/formats/kernel_environment.h"

#include <strings.h>
#include <xmmintrin.h>

#include <cfenv>

#include <hwy/highway.h>

#include "detent/core/error.h"
#include "detent/formats/elements/element_kernels.h"

namespace detent {
namespace {

/// The bits of all targets that can run, asked for before one has been set. Highway's library knows the one
/// without instructions of its own by the name that it has for the compiler which built the library.
int64_t attainable_targets() {
  static const int64_t kTargets = hwy::SupportedTargets();
  return (kTargets | HWY_STATIC_TARGET) & HWY_TARGETS;
}

/// Lower bits are better targets.
std::vector<int64_t> target_bits() {
  std::vector<int64_t> bits;
  for (int64_t rest = attainable_targets(); rest != 0; rest &= rest - 1) bits.push_back(rest & -rest);
  return bits;
}

}  // namespace

std::vector<std::string> simd_targets() {
  std::vector<std::string> names;
  for (const int64_t bit : target_bits()) names.emplace_back(hwy::TargetName(bit));
  return names;
}

std::string active_simd_target() { return kernel_target(); }

std::string left_out_simd_target() {
#if HWY_ARCH_X86
  static const int64_t kOfProcessor = hwy::SupportedTargets() & (HWY_AVX3 | HWY_AVX2 | HWY_SSE4);
  const int64_t best = kOfProcessor & -kOfProcessor;
  if (best != 0 && best < target_bits().front()) return hwy::TargetName(best);
#endif
  return "";
}

void set_simd_target(std::string_view name, const std::string& where) {
  for (const int64_t bit : target_bits()) {
    if (strcasecmp(hwy::TargetName(bit), std::string(name).c_str()) != 0) continue;
    hwy::SetSupportedTargetsForTest(bit);
    return;
  }
  fail("{}: {}", where, unknown_name_message("instruction set", name, simd_targets()));
}

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

#include "detent/formats/simd_target.h"

#include <hwy/highway.h>
#include <strings.h>

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

void set_simd_target(std::string_view name, const std::string& where) {
  for (const int64_t bit : target_bits()) {
    if (strcasecmp(hwy::TargetName(bit), std::string(name).c_str()) != 0) continue;
    hwy::SetSupportedTargetsForTest(bit);
    return;
  }
  fail("{}: {}", where, unknown_name_message("instruction set", name, simd_targets()));
}

}  // namespace detent

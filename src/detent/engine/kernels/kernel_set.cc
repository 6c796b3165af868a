#include "detent/engine/kernels/kernel_set.h"

#include <hwy/highway.h>
#include <hwy/targets.h>
#include <strings.h>

#include <atomic>

#include "detent/core/error.h"

namespace detent {
namespace {

std::atomic<const KernelSet*> chosen = nullptr;

/// Best first, of those that the processor has among `allowed` of Highway's targets.
std::vector<const KernelSet*> sets(int64_t allowed) {
  std::vector<const KernelSet*> found;
#if HWY_ARCH_X86
  // VNNI has no target of its own there: --simd-target AVX3 alone goes without it.
  const bool has_avx512 = (allowed & (HWY_AVX3 | HWY_AVX3_DL)) != 0;
  if (has_avx512 && allowed != HWY_AVX3 && __builtin_cpu_supports("avx512vnni")) {
    if (__builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vpopcntdq"))
      found.push_back(&avx512_vnni::kernels_of_ice_lake());
    found.push_back(&avx512_vnni::kernels());
  }
  if (has_avx512) found.push_back(&avx512::kernels());
  if ((allowed & (HWY_AVX2 | HWY_AVX3 | HWY_AVX3_DL)) != 0) found.push_back(&avx2::kernels());
#endif
  found.push_back(&portable::kernels());
  return found;
}

/// Whatever was set since.
int64_t targets_of_processor() {
  static const int64_t kTargets = hwy::SupportedTargets();
  return kTargets;
}

}  // namespace

std::vector<std::string> engine_targets() {
  std::vector<std::string> names;
  for (const KernelSet* set : sets(targets_of_processor())) names.emplace_back(set->name);
  return names;
}

void set_engine_target(std::string_view name) {
  if (name.empty()) {
    chosen = nullptr;
    return;
  }
  for (const KernelSet* set : sets(targets_of_processor())) {
    if (strcasecmp(set->name, std::string(name).c_str()) != 0) continue;
    chosen = set;
    return;
  }
  fail("{}", unknown_name_message("instruction set", name, engine_targets()));
}

const KernelSet& kernel_set() {
  const KernelSet* set = chosen;
  if (set != nullptr) return *set;
  return *sets(hwy::SupportedTargets()).front();
}

}  // namespace detent

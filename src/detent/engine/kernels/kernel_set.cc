#include "detent/engine/kernels/kernel_set.h"

#include <hwy/highway.h>
#include <hwy/targets.h>
#include <strings.h>

#include <atomic>
#include <mutex>

#include "detent/core/error.h"

#ifdef DETENT_KERNELS_AVX512_VNNI
#include <cpuid.h>
#endif
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace detent {
namespace {

std::atomic<const KernelSet*> chosen = nullptr;

#ifdef DETENT_KERNELS_AVX512_VNNI
/// Whether the processor has AMX with bytes, and Linux gives this process its registers, which it saves only
/// for those that ask (Documentation/arch/x86/xstate.rst). GCC 12 and clang 14 do not know the features by
/// name.
bool asks_for_tiles() {
#if defined(__linux__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kTiles = 1U << 24;
  constexpr unsigned kTilesOfBytes = 1U << 25;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kTiles) == 0 || (d & kTilesOfBytes) == 0)
    return false;
  constexpr int64_t kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int64_t kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

bool has_tiles() {
  static const bool kHasTiles = asks_for_tiles();
  return kHasTiles;
}
#endif

#if HWY_ARCH_X86
/// Highway's targets with AVX-512; the last two are newer than some of its versions.
constexpr int64_t kAvx512 = HWY_AVX3 | HWY_AVX3_DL
#ifdef HWY_AVX3_ZEN4
                            | HWY_AVX3_ZEN4
#endif
#ifdef HWY_AVX3_SPR
                            | HWY_AVX3_SPR
#endif
    ;
#endif

/// Best first, of those that the processor has among `allowed` of Highway's targets.
std::vector<const KernelSet*> sets([[maybe_unused]] int64_t allowed) {
  std::vector<const KernelSet*> found;
#ifdef DETENT_KERNELS_AVX512_VNNI
  // VNNI and tiles are no targets of their own: --simd-target AVX3 goes without both, where there are kernels
  // that do.
#ifdef DETENT_KERNELS_AVX512
  const bool may_have_vnni = allowed != HWY_AVX3;
#else
  constexpr bool may_have_vnni = true;
#endif
  if ((allowed & kAvx512) != 0 && may_have_vnni && __builtin_cpu_supports("avx512vnni")) {
    if (__builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vpopcntdq")) {
      if (has_tiles()) found.push_back(&avx512_vnni::kernels_of_sapphire_rapids());
      found.push_back(&avx512_vnni::kernels_of_ice_lake());
    }
    found.push_back(&avx512_vnni::kernels());
  }
#endif
#ifdef DETENT_KERNELS_AVX512
  if ((allowed & kAvx512) != 0) found.push_back(&avx512::kernels());
#endif
#ifdef DETENT_KERNELS_AVX2
  if ((allowed & (HWY_AVX2 | kAvx512)) != 0) found.push_back(&avx2::kernels());
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
  static std::mutex mutex;
  static const KernelSet* usual = nullptr;
  static size_t usual_index = 0;
  const std::lock_guard lock(mutex);
  // Highway asks the processor each time, which takes a virtual machine some 100 microseconds. It forgets the
  // target it has chosen when another is set.
  const hwy::ChosenTarget& target = hwy::GetChosenTarget();
  if (usual != nullptr && target.IsInitialized() && target.GetIndex() == usual_index) return *usual;
  const int64_t allowed = hwy::SupportedTargets();
  const KernelSet& best = *sets(allowed).front();
  // One and the same target goes with VNNI and, where it is asked for by name, without.
  const bool is_plain_avx512 = (allowed & -allowed) == HWY_AVX3;
  if (target.IsInitialized() && !is_plain_avx512) {
    usual = &best;
    usual_index = target.GetIndex();
  }
  return best;
}

KeptTileShapes::KeptTileShapes() {
#ifdef DETENT_KERNELS_AVX512_VNNI
  has_tiles_ = has_tiles();
  if (has_tiles_) avx512_vnni::store_tile_shapes(shapes_.data());
#endif
}

KeptTileShapes::~KeptTileShapes() {
#ifdef DETENT_KERNELS_AVX512_VNNI
  if (has_tiles_) avx512_vnni::load_tile_shapes(shapes_.data());
#endif
}

}  // namespace detent

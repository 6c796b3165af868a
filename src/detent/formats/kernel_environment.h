#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace detent {

/// Instruction sets that this program was compiled for and that the processor has, best first: "AVX3",
/// "AVX2",
/// ... The first is used unless set_simd_target says otherwise; results are the same with all.
std::vector<std::string> simd_targets();

/// The one in use.
std::string active_simd_target();

/// The best one of the processor, if this program was compiled for less (DETENT_SIMD=native on another
/// machine); else empty. Kernels then run slower, with the same results.
std::string left_out_simd_target();

/// Selects `name`, one of simd_targets() in any case, for all kernels. Not while kernels run. Throws Error,
/// beginning with `where`, on another name.
void set_simd_target(std::string_view name, const std::string& where);

/// While it lives, the calling thread rounds to nearest even, keeps subnormals and masks floating-point
/// exceptions, whatever the caller has set; then the caller's setting returns. Libraries flush subnormals
/// (FTZ, DAZ) at will.
class DefaultFloatEnvironment {
 public:
  DefaultFloatEnvironment();
  ~DefaultFloatEnvironment();
  DefaultFloatEnvironment(const DefaultFloatEnvironment&) = delete;
  DefaultFloatEnvironment& operator=(const DefaultFloatEnvironment&) = delete;

 private:
  uint64_t saved_;
};

}  // namespace detent

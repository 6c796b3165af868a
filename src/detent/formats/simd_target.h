#pragma once

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

/// Makes the kernels run on `name`, one of simd_targets() in any case. Not while kernels run. Throws Error,
/// beginning with `where`, on another name.
void set_simd_target(std::string_view name, const std::string& where);

}  // namespace detent

#pragma once

#include "detent/engine/kernels/kernel_set.h"

namespace detent {

namespace portable {
const KernelSet& kernels();
}
namespace avx2 {
const KernelSet& kernels();
}
namespace avx512 {
const KernelSet& kernels();
}
namespace avx512_vnni {
const KernelSet& kernels();
/// With VBMI and VPOPCNTDQ too.
const KernelSet& kernels_of_ice_lake();
/// With tiles of bytes (AMX) too; the kernel must have given the process its registers.
const KernelSet& kernels_of_sapphire_rapids();
}  // namespace avx512_vnni

}  // namespace detent

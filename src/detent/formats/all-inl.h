// Every format's kernel, a line each. A kernel is MakeKernel(d, parameters, first_index), called back as
// kernel(d, x, index) with `index` the place in the tensor of the first lane; first_index and all later
// indices of one kernel agree in their upper 32 bits. No include guard: those of the files below are per
// target. Formats whose blocks share a scale have a MakeBlockKernel(d, parameters) instead: block_kernels.cc.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#include "detent/formats/affine-inl.h"
#include "detent/formats/binary-inl.h"
#include "detent/formats/binary_residual-inl.h"
#include "detent/formats/block_grid-inl.h"
#include "detent/formats/block_log-inl.h"
#include "detent/formats/codebook-inl.h"
#include "detent/formats/fixed-inl.h"
#include "detent/formats/log-inl.h"
#include "detent/formats/minifloat-inl.h"
#include "detent/formats/nvfp4-inl.h"
#include "detent/formats/ternary-inl.h"

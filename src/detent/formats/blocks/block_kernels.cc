#include "detent/formats/blocks/block_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/formats/blocks/block_kernels.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "detent/formats/blocks/block_rounder-inl.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {

template <class Rounder>
void RoundUnits(const Rounder& rounder, const BlockLayout& layout, int64_t begin, int64_t end) {
  BlockLayout::Unit unit;
  for (int64_t i = begin; i < end; ++i) {
    layout.locate(i, unit);
    rounder.RoundUnit(unit);
  }
}

template <class P>
void RoundValues(const P& of_tensor, const BlockLayout& layout, const float* input, float* output,
                 int64_t begin, int64_t end, bool stream) {
  const bool streams = stream && layout.in_whole_vectors(output, HWY_MAX_BYTES);
  RoundUnits(BlockRounder<P, Written::kValue>(of_tensor, layout, input, output, streams), layout, begin, end);
  if (streams) hwy::FlushStream();
}

void RoundBlocks(const GroupParameters& parameters, const BlockLayout& layout, BlockOutput kind,
                 const float* input, float* output, int64_t begin, int64_t end, bool stream) {
  std::visit(
      [&]<class P>(const std::vector<P>& groups) {
        if constexpr (BlockScaleRule<P>) {
          const P& of_tensor = groups[0];
          if (kind == BlockOutput::kUnsaturated) {
            const BlockRounder<P, Written::kUnsaturated> rounder(of_tensor, layout, input, output, false);
            return RoundUnits(rounder, layout, begin, end);
          }
          if constexpr (std::is_same_v<P, BlockGridParameters>) {
            if (of_tensor.one_zero())
              return RoundValues(OneZeroGridParameters{of_tensor}, layout, input, output, begin, end, stream);
          }
          RoundValues(of_tensor, layout, input, output, begin, end, stream);
        }
      },
      parameters);
}

void CodeBlocks(const GroupParameters& parameters, const BlockLayout& layout, const BlockCodeOutput& output,
                const float* input, uint32_t* codes, int64_t first, int64_t begin, int64_t end) {
  std::visit(
      [&]<class P>(const std::vector<P>& groups) {
        if constexpr (BlockScaleRule<P>) {
          const BlockRounder<P, Written::kCode> rounder(groups[0], layout, input, codes, first, output);
          RoundUnits(rounder, layout, begin, end);
        }
      },
      parameters);
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(RoundBlocks);
HWY_EXPORT(CodeBlocks);

void round_blocks(const GroupParameters& parameters, const BlockLayout& layout, BlockOutput kind,
                  const float* input, float* output, int64_t begin, int64_t end, bool stream) {
  HWY_DYNAMIC_DISPATCH(RoundBlocks)(parameters, layout, kind, input, output, begin, end, stream);
}

void code_blocks(const GroupParameters& parameters, const BlockLayout& layout, const BlockCodeOutput& output,
                 const float* input, uint32_t* codes, int64_t first, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(CodeBlocks)(parameters, layout, output, input, codes, first, begin, end);
}

}  // namespace detent
#endif  // HWY_ONCE

// Per-target include guard
#if defined(DETENT_FORMATS_BLOCKS_BLOCK_GRID_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DETENT_FORMATS_BLOCKS_BLOCK_GRID_INL_H_
#undef DETENT_FORMATS_BLOCKS_BLOCK_GRID_INL_H_
#else
#define DETENT_FORMATS_BLOCKS_BLOCK_GRID_INL_H_
#endif

#include <hwy/highway.h>

#include "detent/formats/blocks/block_scale.h"
#include "detent/formats/elements/minifloat-inl.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {

/// Elements of a BlockGrid: of a minifloat whose least addend and largest value differ from block to block.
/// Plain blocks are rounded as they are.
///
/// For others all is done 2^23 above, and from 2^64 on 2^41 beneath: then no intermediate value is a float32
/// subnormal or overflows. An addend held to 2^-126 makes no difference since the values are multiples of
/// 2^-126; nor does one held to 2^126, as all that it is added to is below 2^88 and vanishes.
///
/// Values rounded to 0 keep their sign, unless `kOneZero`.
template <class D, bool kOneZero>
class BlockGridKernel {
  using V = hn::Vec<D>;
  using DI = hn::RebindToSigned<D>;

 public:
  using Parameters = BlockGridParameters;
  struct Shared {
    V largest, least, addend_below, addend_from, unsaturated;
  };
  /// at(k) is the k-th of what a block scales.
  template <class At>
  static HWY_INLINE Shared Collect(At&& at) {
    return {at(0), at(1), at(2), at(3), at(4)};
  }

  BlockGridKernel(D /*d*/, const BlockGridParameters& p) : parameters_(p), arithmetic_(p.mantissa_bits()) {}

  const Parameters& parameters() const { return parameters_; }

  /// Rounds a plain block whose elements are all finite.
  HWY_INLINE V RoundFinite(D d, V x, const Shared& shared) const {
    const V magnitude = hn::Min(hn::Abs(x), shared.largest);
    return WithSign(d, arithmetic_.Round(d, magnitude, shared.least), x);
  }
  template <class Sign>
  HWY_INLINE hn::Vec<DI> Code(D d, V x, const Shared& shared, const Sign& sign) const {
    const V magnitude = hn::Min(hn::Abs(x), shared.largest);
    return sign.Code(arithmetic_.Number(d, magnitude, shared.least), x);
  }
  HWY_INLINE V Round(D d, V x, const Shared& shared) const {
    const V magnitude = hn::Min(hn::Abs(x), shared.largest);
    const auto high = hn::Ge(magnitude, hn::Set(d, 0x1p64F));
    const V shifted = hn::Mul(magnitude, hn::IfThenElse(high, hn::Set(d, 0x1p-41F), hn::Set(d, 0x1p23F)));
    const V least = hn::IfThenElse(high, shared.addend_from, shared.addend_below);
    const V rounded = arithmetic_.Round(d, shifted, least);
    const V back = hn::Mul(rounded, hn::IfThenElse(high, hn::Set(d, 0x1p41F), hn::Set(d, 0x1p-23F)));
    const V held = hn::Min(back, shared.largest);
    return hn::IfThenElse(hn::IsNaN(x), x, WithSign(d, held, x));
  }

  HWY_INLINE hn::Mask<D> Unsaturated(D /*d*/, V x, const Shared& shared) const {
    return hn::Le(hn::Abs(x), shared.unsaturated);
  }

 private:
  static HWY_INLINE V WithSign(D d, V magnitude, V x) {
    const V value = hn::CopySignToAbs(magnitude, x);
    return kOneZero ? hn::Add(value, hn::Zero(d)) : value;
  }

  const BlockGridParameters& parameters_;
  MinifloatArithmetic<D> arithmetic_;
};

template <class D>
auto MakeBlockKernel(D d, const BlockGridParameters& parameters) {
  return BlockGridKernel<D, false>(d, parameters);
}

/// A grid with one zero, as a type: a run-time check would slow all grids.
struct OneZeroGridParameters : BlockGridParameters {};

template <class D>
auto MakeBlockKernel(D d, const OneZeroGridParameters& parameters) {
  return BlockGridKernel<D, true>(d, parameters);
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DETENT_FORMATS_BLOCKS_BLOCK_GRID_INL_H_

// Per-target include guard
#if defined(DETENT_FORMATS_BLOCKS_BLOCK_LOG_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DETENT_FORMATS_BLOCKS_BLOCK_LOG_INL_H_
#undef DETENT_FORMATS_BLOCKS_BLOCK_LOG_INL_H_
#else
#define DETENT_FORMATS_BLOCKS_BLOCK_LOG_INL_H_
#endif

#include <hwy/highway.h>

#include "detent/formats/blocks/block_log.h"
#include "detent/formats/elements/log-inl.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {

/// Subnormals are first brought 2^24 up.
template <class D>
class BlockLogKernel {
  using V = hn::Vec<D>;
  using DI = hn::RebindToSigned<D>;

 public:
  using Parameters = BlockLogParameters;
  struct Shared {
    V plain_largest, plain_smallest, largest, smallest, unsaturated;
  };
  template <class At>
  static HWY_INLINE Shared Collect(At&& at) {
    return {at(0), at(1), at(2), at(3), at(4)};
  }

  BlockLogKernel(D /*d*/, const BlockLogParameters& p) : parameters_(p) {}

  const Parameters& parameters() const { return parameters_; }

  HWY_INLINE V Round(D d, V x, const Shared& shared) const {
    const V magnitude = hn::Abs(x);
    const auto low = hn::Lt(magnitude, hn::Set(d, power_of_two(-126)));
    const V shifted = hn::Mul(magnitude, hn::IfThenElse(low, hn::Set(d, 0x1p24F), hn::Set(d, 1.0F)));
    const V power = NearestPower(d, shifted);
    const V back = hn::Mul(power, hn::IfThenElse(low, hn::Set(d, 0x1p-24F), hn::Set(d, 1.0F)));
    const V held = hn::Max(hn::Min(back, shared.largest), shared.smallest);
    return hn::IfThenElse(hn::IsNaN(x), x, WithSign(d, held, x));
  }

  /// Rounds a plain block whose elements are all finite.
  HWY_INLINE V RoundFinite(D d, V x, const Shared& shared) const {
    return WithSign(d, hn::Mul(PlainPower(d, x, shared), hn::Set(d, 0x1p-24F)), x);
  }

  /// Counted from the smallest.
  template <class Sign>
  HWY_INLINE hn::Vec<DI> Code(D d, V x, const Shared& shared, const Sign& sign) const {
    const DI di;
    const V power = PlainPower(d, x, shared);
    const auto above = hn::Sub(hn::BitCast(di, power), hn::BitCast(di, shared.plain_smallest));
    return sign.Code(hn::ShiftRight<23>(above), hn::Add(x, hn::Zero(d)));
  }

  HWY_INLINE hn::Mask<D> Unsaturated(D /*d*/, V x, const Shared& shared) const {
    return hn::Le(hn::Abs(x), shared.unsaturated);
  }

 private:
  /// 2^24 times as large as the value.
  static HWY_INLINE V PlainPower(D d, V x, const Shared& shared) {
    const V power = NearestPower(d, hn::Mul(hn::Abs(x), hn::Set(d, 0x1p24F)));
    return hn::Max(hn::Min(power, shared.plain_largest), shared.plain_smallest);
  }

  /// + where x is 0: -0 + 0 is +0.
  static HWY_INLINE V WithSign(D d, V magnitude, V x) {
    return hn::CopySignToAbs(magnitude, hn::Add(x, hn::Zero(d)));
  }

  const BlockLogParameters& parameters_;
};

template <class D>
auto MakeBlockKernel(D d, const BlockLogParameters& parameters) {
  return BlockLogKernel<D>(d, parameters);
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DETENT_FORMATS_BLOCKS_BLOCK_LOG_INL_H_

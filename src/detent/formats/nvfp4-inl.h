// Per-target include guard
#if defined(DETENT_FORMATS_NVFP4_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DETENT_FORMATS_NVFP4_INL_H_
#undef DETENT_FORMATS_NVFP4_INL_H_
#else
#define DETENT_FORMATS_NVFP4_INL_H_
#endif

#include <hwy/highway.h>

#include "detent/formats/nvfp4.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {

/// e2m1 has the steps 1/2 below 2, 1 below 4 and 2 up to 6: |q| + 2^(e + 22) for the exponent e >= 0 of |q|
/// has that step as its last bit.
template <class D>
class Nvfp4Kernel {
  using V = hn::Vec<D>;
  using DI = hn::RebindToSigned<D>;

 public:
  using Parameters = Nvfp4Parameters;
  struct Shared {
    V scale, divisor;
  };
  template <class At>
  static HWY_INLINE Shared Collect(At&& at) {
    return {at(0), at(1)};
  }

  Nvfp4Kernel(D /*d*/, const Nvfp4Parameters& /*p*/) {}

  HWY_INLINE V Round(D d, V x, const Shared& shared) const {
    const V value = hn::Mul(Magnitude(d, x, shared), shared.scale);
    const V held = hn::Min(value, hn::Set(d, std::numeric_limits<float>::max()));
    return hn::IfThenElse(hn::IsNaN(x), x, hn::CopySignToAbs(held, x));
  }

  /// The element, before it is scaled.
  HWY_INLINE V RoundElement(D d, V x, const Shared& shared) const {
    return hn::IfThenElse(hn::IsNaN(x), x, hn::CopySignToAbs(Magnitude(d, x, shared), x));
  }

  /// 7, the tie between 6 and 8, would go to 8.
  HWY_INLINE hn::Mask<D> Unsaturated(D d, V x, const Shared& shared) const {
    const V magnitude = hn::Abs(x);
    const auto within = hn::Lt(hn::Div(magnitude, shared.divisor), hn::Set(d, 7.0F));
    const V zero = hn::Zero(d);
    return hn::Or(hn::And(within, hn::Gt(shared.scale, zero)), hn::Eq(magnitude, zero));
  }

 private:
  /// Of the element.
  static HWY_INLINE V Magnitude(D d, V x, const Shared& shared) {
    const V quotient = hn::Min(hn::Div(hn::Abs(x), shared.divisor), hn::Set(d, 6.0F));
    const V binade = hn::And(quotient, hn::BitCast(d, hn::Set(DI(), 0x7F800000)));
    const V addend = hn::Mul(hn::Max(binade, hn::Set(d, 1.0F)), hn::Set(d, 0x1p22F));
    return hn::Sub(hn::Add(quotient, addend), addend);
  }
};

template <class D>
auto MakeBlockKernel(D d, const Nvfp4Parameters& parameters) {
  return Nvfp4Kernel<D>(d, parameters);
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DETENT_FORMATS_NVFP4_INL_H_

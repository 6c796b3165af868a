// Per-target include guard
#if defined(DETENT_FORMATS_ELEMENTS_LOG_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DETENT_FORMATS_ELEMENTS_LOG_INL_H_
#undef DETENT_FORMATS_ELEMENTS_LOG_INL_H_
#else
#define DETENT_FORMATS_ELEMENTS_LOG_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// The power of two nearest to a normal magnitude in the log domain: 2^k * m with 1 <= m < 2 goes to 2^(k+1)
/// when m > sqrt(2), that is when the fraction bits are those of the first float32 above it, 0x3504F4, or
/// more. Adding what they lack to 2^23 carries into the exponent then.
template <class D>
HWY_INLINE hn::Vec<D> NearestPower(D d, hn::Vec<D> magnitude) {
  const hn::RebindToSigned<D> di;
  const auto carried = hn::Add(hn::BitCast(di, magnitude), hn::Set(di, 0x800000 - 0x3504F4));
  return hn::BitCast(d, hn::And(carried, hn::Set(di, 0x7F800000)));
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DETENT_FORMATS_ELEMENTS_LOG_INL_H_

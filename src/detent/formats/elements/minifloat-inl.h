// Per-target include guard
#if defined(DETENT_FORMATS_ELEMENTS_MINIFLOAT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DETENT_FORMATS_ELEMENTS_MINIFLOAT_INL_H_
#undef DETENT_FORMATS_ELEMENTS_MINIFLOAT_INL_H_
#else
#define DETENT_FORMATS_ELEMENTS_MINIFLOAT_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>

#include "detent/formats/float_bits.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// The one place that rounds to a minifloat's grid, of M mantissa bits, for element formats and for elements
/// of blocks. Rounding is left to float32 addition, which is to nearest, ties to even: for a magnitude with
/// exponent e, the *addend* 2^(e - M + 23) has the grid's step 2^(e - M) as its last bit, the sum stays in
/// the addend's binade since M <= 22, and subtracting the addend again is exact.
///
/// `least` is the addend of the lowest binade, 2^(min_exponent - M + 23): one for all lanes, or each lane's
/// own. Addends must be finite, and differences normal in float32: who has other values scales them first.
template <class D>
class MinifloatArithmetic {
  using V = hn::Vec<D>;
  using DI = hn::RebindToSigned<D>;
  using VI = hn::Vec<DI>;

 public:
  explicit MinifloatArithmetic(int mantissa_bits)
      : to_addend_(hn::Set(DI(), (23 - mantissa_bits) * (1 << 23))), dropped_bits_(23 - mantissa_bits) {}

  HWY_INLINE V Addend(D d, V magnitude, V least) const {
    const DI di;
    const VI exponent = hn::And(hn::BitCast(di, magnitude), hn::Set(di, 0x7F800000));
    return hn::BitCast(d, hn::Max(hn::Add(exponent, to_addend_), hn::BitCast(di, least)));
  }

  HWY_INLINE V Round(D d, V magnitude, V least) const {
    const V addend = Addend(d, magnitude, least);
    return hn::Sub(hn::Add(magnitude, addend), addend);
  }

  /// The number of the rounded magnitude. The bits of magnitude + addend exceed those of the addend by the
  /// rounded magnitude in steps, at most 2^(M+1). In the n-th binade from the least on, that is the magnitude
  /// number n * 2^M + steps.
  HWY_INLINE VI Number(D d, V magnitude, V least) const {
    return NumberFrom(d, magnitude, least, hn::BitCast(DI(), least));
  }
  /// The same where the lowest binade would have an addend with the bits `lowest`, be it one that float32 has
  /// or not.
  HWY_INLINE VI NumberFrom(D d, V magnitude, V least, VI lowest) const {
    const DI di;
    const V addend = Addend(d, magnitude, least);
    const VI addend_bits = hn::BitCast(di, addend);
    const VI steps = hn::Sub(hn::BitCast(di, hn::Add(magnitude, addend)), addend_bits);
    return hn::Add(steps, hn::ShiftRightSame(hn::Sub(addend_bits, lowest), dropped_bits_));
  }

 private:
  VI to_addend_;
  int dropped_bits_;
};

/// The inverse of MinifloatArithmetic::Number where all normal magnitudes, and the one before them, are
/// normal in float32. The number stands in the mantissa and exponent of a float32: subnormals come out in the
/// binade beneath, as (1 + m / 2^M) * 2^(e - 1) instead of m / 2^M * 2^e. `first` is the number of code 0.
template <class D>
class MinifloatMagnitudes {
  using V = hn::Vec<D>;
  using DI = hn::RebindToSigned<D>;
  using VI = hn::Vec<DI>;

 public:
  static bool Hold(int min_exponent, int max_exponent) { return min_exponent >= -125 && max_exponent <= 126; }

  MinifloatMagnitudes(D d, int mantissa_bits, int min_exponent, int first = 0)
      : dropped_bits_(23 - mantissa_bits),
        base_(hn::Set(DI(), (min_exponent - 1 + 127) * (1 << 23) + first * (1 << dropped_bits_))),
        first_normal_(hn::Set(DI(), (1 << mantissa_bits) - first)),
        least_(hn::Set(d, power_of_two(std::clamp(min_exponent, -126, 127)))) {}

  HWY_INLINE V Of(D d, VI number) const {
    const V normal = hn::BitCast(d, hn::Add(hn::ShiftLeftSame(number, dropped_bits_), base_));
    const V subnormal = hn::Sub(hn::Add(normal, normal), least_);
    return hn::IfThenElse(hn::RebindMask(d, hn::Lt(number, first_normal_)), subnormal, normal);
  }

 private:
  int dropped_bits_;
  VI base_, first_normal_;
  V least_;
};

/// m * 2^exponent for any result that float32 holds, if as a subnormal: the power in two factors, as it may
/// leave float32's exponents.
template <class D>
HWY_INLINE hn::Vec<D> Scaled(D d, hn::Vec<hn::RebindToSigned<D>> m, hn::Vec<hn::RebindToSigned<D>> exponent) {
  const hn::RebindToSigned<D> di;
  const auto power = [&](auto of) HWY_ATTR {
    return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(of, hn::Set(di, 127))));
  };
  const auto held = hn::Max(exponent, hn::Set(di, -100));
  return hn::Mul(hn::Mul(hn::ConvertTo(d, m), power(held)), power(hn::Sub(exponent, held)));
}

/// The sign bit of float32 bits as the highest bit of a code of 32 - shift bits.
template <class D, class DI = hn::RebindToSigned<D>>
HWY_INLINE hn::Vec<DI> SignOfCode(D /*d*/, hn::Vec<D> x, int shift) {
  const DI di;
  const hn::RebindToUnsigned<D> du;
  const auto shifted = hn::BitCast(di, hn::ShiftRightSame(hn::BitCast(du, x), shift));
  return hn::And(shifted, hn::Set(di, int32_t{1} << (31 - shift)));
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DETENT_FORMATS_ELEMENTS_MINIFLOAT_INL_H_

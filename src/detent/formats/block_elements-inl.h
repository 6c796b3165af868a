// Per-target include guard
#if defined(DETENT_FORMATS_BLOCK_ELEMENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DETENT_FORMATS_BLOCK_ELEMENTS_INL_H_
#undef DETENT_FORMATS_BLOCK_ELEMENTS_INL_H_
#else
#define DETENT_FORMATS_BLOCK_ELEMENTS_INL_H_
#endif

#include <hwy/highway.h>

#include "detent/formats/codes/element_form.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using ElementTag = hn::ScalableTag<float>;
using ElementVec = hn::Vec<ElementTag>;
using CodeTag = hn::RebindToSigned<ElementTag>;
using CodeVec = hn::Vec<CodeTag>;

/// Elements in two's complement, by their codes.
class Integers {
  static constexpr ElementTag d{};

 public:
  explicit Integers(const ElementForm& form)
      : unused_bits_(32 - form.width),
        step_(hn::Set(d, form.normal ? power_of_two(form.min_exponent) : 0.0F)) {}

  HWY_INLINE ElementVec Of(CodeVec codes) const {
    const CodeVec shifted = hn::ShiftLeftSame(codes, unused_bits_);
    return hn::Mul(hn::ConvertTo(d, hn::ShiftRightSame(shifted, unused_bits_)), step_);
  }

 private:
  int unused_bits_;
  ElementVec step_;
};

/// A sign and the number of a magnitude. The number stands in the mantissa and exponent of a float32: those
/// before the normal ones come out in the binade beneath, as (1 + m / 2^M) * 2^(e - 1) instead of
/// m / 2^M * 2^e.
template <bool kHasNan>
class Minifloats {
  static constexpr ElementTag d{};
  static constexpr CodeTag di{};

 public:
  explicit Minifloats(const ElementForm& form)
      : unused_bits_(32 - form.width),
        dropped_bits_(23 - form.mantissa_bits),
        number_bits_(hn::Set(di, (int32_t{1} << (form.width - 1)) - 1)),
        base_(hn::Set(di, (form.min_exponent - 1 + 127) * (1 << 23) + form.first * (1 << dropped_bits_))),
        first_normal_(hn::Set(di, (1 << form.mantissa_bits) - form.first)),
        largest_(hn::Set(di, form.largest)),
        least_(hn::Set(d, form.normal ? power_of_two(form.min_exponent) : 0.0F)) {}

  HWY_INLINE ElementVec Of(CodeVec codes) const {
    return hn::CopySignToAbs(Magnitude(hn::And(codes, number_bits_)),
                             hn::BitCast(d, hn::ShiftLeftSame(codes, unused_bits_)));
  }

 private:
  HWY_INLINE ElementVec Magnitude(CodeVec number) const {
    const ElementVec normal = hn::BitCast(d, hn::Add(hn::ShiftLeftSame(number, dropped_bits_), base_));
    const ElementVec subnormal = hn::Sub(hn::Add(normal, normal), least_);
    const auto is_subnormal = hn::RebindMask(d, hn::Lt(number, first_normal_));
    const ElementVec magnitude = hn::IfThenElse(is_subnormal, subnormal, normal);
    if constexpr (!kHasNan) return magnitude;
    const CodeVec infinity = hn::IfThenElseZero(hn::Gt(number, largest_), hn::Set(di, 0x7F800000));
    return hn::Or(magnitude, hn::BitCast(d, infinity));
  }

  int unused_bits_;
  int dropped_bits_;
  CodeVec number_bits_, base_, first_normal_, largest_;
  ElementVec least_;
};

/// The same for as few magnitudes as a vector has lanes, by looking them up.
class FewMinifloats {
  static constexpr ElementTag d{};
  static constexpr CodeTag di{};

 public:
  static bool Hold(const ElementForm& form) {
    return !form.twos_complement && size_t{1} << (form.width - 1) <= hn::Lanes(d);
  }

  explicit FewMinifloats(const ElementForm& form)
      : unused_bits_(32 - form.width),
        number_bits_(hn::Set(di, (int32_t{1} << (form.width - 1)) - 1)),
        magnitudes_(hn::Abs(Minifloats<true>(form).Of(hn::Iota(di, 0)))) {}

  HWY_INLINE ElementVec Of(CodeVec codes) const {
    const auto number = hn::IndicesFromVec(d, hn::And(codes, number_bits_));
    return hn::CopySignToAbs(hn::TableLookupLanes(magnitudes_, number),
                             hn::BitCast(d, hn::ShiftLeftSame(codes, unused_bits_)));
  }

 private:
  int unused_bits_;
  CodeVec number_bits_;
  ElementVec magnitudes_;
};

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DETENT_FORMATS_BLOCK_ELEMENTS_INL_H_

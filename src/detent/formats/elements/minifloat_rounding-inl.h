// The kernel of minifloats, made from MinifloatParameters.
//
// Per-target include guard
#if defined(DETENT_FORMATS_ELEMENTS_MINIFLOAT_ROUNDING_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DETENT_FORMATS_ELEMENTS_MINIFLOAT_ROUNDING_INL_H_
#undef DETENT_FORMATS_ELEMENTS_MINIFLOAT_ROUNDING_INL_H_
#else
#define DETENT_FORMATS_ELEMENTS_MINIFLOAT_ROUNDING_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "detent/formats/elements/element_loops-inl.h"
#include "detent/formats/elements/minifloat-inl.h"
#include "detent/formats/elements/minifloat.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {

/// Where addends may leave float32's exponents, or values are float32 subnormals, all is done 2^32 above
/// (below 1) or beneath (from 1 on): kShifted. Where min_exponent is that of float32, the subnormals are too:
/// then the bits are rounded as an integer, whose carry is the next exponent: kAsBits.
enum class GridKind { kNormal, kShifted, kAsBits };

template <class D, GridKind kKind, bool kOneZero>
class MinifloatRounding {
  using V = hn::Vec<D>;
  using DI = hn::RebindToSigned<D>;
  using DU = hn::RebindToUnsigned<D>;
  using VI = hn::Vec<DI>;

 public:
  MinifloatRounding(D d, const MinifloatParameters& p)
      : arithmetic_(p.grid.mantissa_bits),
        magnitudes_(d, p.grid.mantissa_bits, p.grid.min_exponent),
        largest_(hn::Set(d, p.grid.largest)),
        overflow_from_(hn::Set(d, p.overflow_from)),
        overflow_value_(hn::Set(d, p.overflow_value)),
        least_(Addend(p, 0)),
        least_below_one_(Addend(p, kShift)),
        least_from_one_(Addend(p, -kShift)),
        lowest_from_one_(hn::Set(DI(), (AddendExponent(p, -kShift) + 127) * (1 << 23))),
        largest_number_(hn::Set(DI(), p.largest_number)),
        mantissa_bits_(p.grid.mantissa_bits),
        min_exponent_(p.grid.min_exponent),
        sign_shift_(32 - p.width),
        reserved_(p.reserved),
        saturates_(p.overflow_value == p.grid.largest),
        is_denorm_(p.is_denorm),
        decodes_to_normal_(MinifloatMagnitudes<D>::Hold(p.grid.min_exponent, std::ilogb(p.grid.largest))) {}

  HWY_INLINE V Round(D d, V x, uint64_t /*index*/) const {
    const V magnitude = hn::Abs(x);
    const V rounded = RoundHeld(d, hn::Min(magnitude, largest_));
    const V held =
        saturates_ ? rounded : hn::IfThenElse(hn::Ge(magnitude, overflow_from_), overflow_value_, rounded);
    const V value = hn::CopySignToAbs(held, x);
    return hn::IfThenElse(hn::IsNaN(x), x, kOneZero ? hn::Add(value, hn::Zero(d)) : value);
  }

  HWY_INLINE VI Encode(D d, V x, uint64_t /*index*/) const {
    const DI di;
    const V magnitude = hn::Abs(x);
    VI number = NumberOfHeld(d, hn::Min(magnitude, largest_));
    if (is_denorm_) number = DenormCode(number);
    if (reserved_ == ReservedCodes::kNone) return hn::Or(number, Sign(d, x));
    const VI next = hn::Add(largest_number_, hn::Set(di, 1));
    if (!saturates_)
      number = hn::IfThenElse(hn::RebindMask(di, hn::Ge(magnitude, overflow_from_)), next, number);
    const auto is_nan = hn::RebindMask(di, hn::IsNaN(x));
    if (reserved_ == ReservedCodes::kNegativeZero) {
      const auto is_zero = hn::Eq(number, hn::Zero(di));
      const VI code = hn::IfThenZeroElse(is_zero, hn::Or(number, Sign(d, x)));
      return hn::IfThenElse(is_nan, hn::Set(di, int32_t{1} << (31 - sign_shift_)), code);
    }
    const VI nan = reserved_ == ReservedCodes::kNan ? next : NumberMask();
    return hn::Or(hn::IfThenElse(is_nan, nan, number), Sign(d, x));
  }

  HWY_INLINE V Decode(D d, VI code) const {
    const DI di;
    const VI number = hn::And(code, NumberMask());
    const V magnitude = is_denorm_           ? DenormMagnitude(d, number)
                        : decodes_to_normal_ ? magnitudes_.Of(d, number)
                                             : AnyMagnitude(d, number);
    const V value = hn::CopySignToAbs(magnitude, hn::BitCast(d, hn::ShiftLeftSame(code, sign_shift_)));
    if (reserved_ == ReservedCodes::kNone) return value;
    const V nan = hn::Set(d, std::numeric_limits<float>::quiet_NaN());
    if (reserved_ == ReservedCodes::kNegativeZero) {
      const auto is_nan = hn::Eq(code, hn::Set(di, int32_t{1} << (31 - sign_shift_)));
      return hn::IfThenElse(hn::RebindMask(d, is_nan), nan, value);
    }
    const auto beyond = hn::RebindMask(d, hn::Gt(number, largest_number_));
    if (reserved_ == ReservedCodes::kNan) return hn::IfThenElse(beyond, nan, value);
    const auto is_infinity = hn::Eq(number, hn::Add(largest_number_, hn::Set(di, 1)));
    const V infinity = hn::CopySignToAbs(hn::Set(d, std::numeric_limits<float>::infinity()), value);
    return hn::IfThenElse(beyond, hn::IfThenElse(hn::RebindMask(d, is_infinity), infinity, nan), value);
  }

 private:
  static constexpr int kShift = 32;

  /// Exponent of the addend of the lowest binade, 2^shift above.
  static int AddendExponent(const MinifloatParameters& p, int shift) {
    return p.grid.min_exponent + shift - p.grid.mantissa_bits + 23;
  }
  /// That addend held to what float32 has: others never count.
  static V Addend(const MinifloatParameters& p, int shift) {
    return hn::Set(D(), power_of_two(std::clamp(AddendExponent(p, shift), -126, 127)));
  }

  HWY_INLINE V RoundHeld(D d, V magnitude) const {
    if constexpr (kKind == GridKind::kNormal) return arithmetic_.Round(d, magnitude, least_);
    if constexpr (kKind == GridKind::kAsBits) return hn::BitCast(d, RoundBits(magnitude));
    const auto below_one = hn::Lt(magnitude, hn::Set(d, 1.0F));
    const V up = hn::Set(d, power_of_two(kShift));
    const V down = hn::Set(d, power_of_two(-kShift));
    const V least = hn::IfThenElse(below_one, least_below_one_, least_from_one_);
    const V shifted = hn::Mul(magnitude, hn::IfThenElse(below_one, up, down));
    return hn::Mul(arithmetic_.Round(d, shifted, least), hn::IfThenElse(below_one, down, up));
  }

  HWY_INLINE VI NumberOfHeld(D d, V magnitude) const {
    const DI di;
    if constexpr (kKind == GridKind::kNormal) return arithmetic_.Number(d, magnitude, least_);
    if constexpr (kKind == GridKind::kAsBits) {
      return hn::ShiftRightSame(RoundBits(magnitude), 23 - mantissa_bits_);
    }
    const auto below_one = hn::Lt(magnitude, hn::Set(d, 1.0F));
    const V factor =
        hn::IfThenElse(below_one, hn::Set(d, power_of_two(kShift)), hn::Set(d, power_of_two(-kShift)));
    const V least = hn::IfThenElse(below_one, least_below_one_, least_from_one_);
    const VI lowest =
        hn::IfThenElse(hn::RebindMask(di, below_one), hn::BitCast(di, least_below_one_), lowest_from_one_);
    return arithmetic_.NumberFrom(d, hn::Mul(magnitude, factor), least, lowest);
  }

  HWY_INLINE VI RoundBits(V magnitude) const {
    const DI di;
    const int dropped_bits = 23 - mantissa_bits_;
    const VI bits = hn::BitCast(di, magnitude);
    const VI last = hn::And(hn::ShiftRightSame(bits, dropped_bits), hn::Set(di, 1));
    const VI almost_half = hn::Set(di, (1 << (dropped_bits - 1)) - 1);
    const VI rounded = hn::Add(bits, hn::Add(almost_half, last));
    return hn::And(rounded, hn::Set(di, -(1 << dropped_bits)));
  }

  HWY_INLINE V AnyMagnitude(D d, VI number) const {
    const DI di;
    const VI one = hn::Set(di, 1);
    const VI binade = hn::Max(hn::ShiftRightSame(number, mantissa_bits_), one);
    const VI m = hn::Sub(number, hn::ShiftLeftSame(hn::Sub(binade, one), mantissa_bits_));
    const VI exponent = hn::Add(binade, hn::Set(di, min_exponent_ - mantissa_bits_ - 1));
    return Scaled(d, m, exponent);
  }

  /// e + bias, then m, whose first bit is the leading bit of the grid's normal magnitudes.
  HWY_INLINE VI DenormCode(VI number) const {
    const DI di;
    const VI one = hn::Set(di, 1);
    const VI binade = hn::Max(hn::ShiftRightSame(number, mantissa_bits_), one);
    const VI exponent = hn::Sub(binade, one);
    const VI m = hn::Sub(number, hn::ShiftLeftSame(exponent, mantissa_bits_));
    return hn::Or(hn::ShiftLeftSame(exponent, mantissa_bits_ + 1), m);
  }
  HWY_INLINE V DenormMagnitude(D d, VI code) const {
    const DI di;
    const VI m = hn::And(code, hn::Set(di, (2 << mantissa_bits_) - 1));
    const VI exponent = hn::ShiftRightSame(code, mantissa_bits_ + 1);
    return Scaled(d, m, hn::Add(exponent, hn::Set(di, min_exponent_ - mantissa_bits_)));
  }

  HWY_INLINE VI NumberMask() const { return hn::Set(DI(), (int32_t{1} << (31 - sign_shift_)) - 1); }
  HWY_INLINE VI Sign(D d, V x) const { return SignOfCode(d, x, sign_shift_); }

  MinifloatArithmetic<D> arithmetic_;
  MinifloatMagnitudes<D> magnitudes_;
  V largest_, overflow_from_, overflow_value_;
  V least_, least_below_one_, least_from_one_;
  VI lowest_from_one_, largest_number_;
  int mantissa_bits_, min_exponent_;
  int sign_shift_;
  ReservedCodes reserved_;
  bool saturates_;
  bool is_denorm_;
  bool decodes_to_normal_;
};

template <class D>
struct MinifloatKernel {
  template <class Visit>
  static HWY_INLINE void With(D d, const MinifloatParameters& p, uint64_t /*first_index*/,
                              const Visit& visit) {
    const MinifloatGrid& grid = p.grid;
    const bool leaves_exponents =
        grid.min_exponent < -126 || !(grid.largest < power_of_two(104 + grid.mantissa_bits));
    if (grid.min_exponent == -126) return visit(MinifloatRounding<D, GridKind::kAsBits, false>(d, p));
    if (leaves_exponents) return visit(MinifloatRounding<D, GridKind::kShifted, false>(d, p));
    if (grid.one_zero) return visit(MinifloatRounding<D, GridKind::kNormal, true>(d, p));
    visit(MinifloatRounding<D, GridKind::kNormal, false>(d, p));
  }
};

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DETENT_FORMATS_ELEMENTS_MINIFLOAT_ROUNDING_INL_H_

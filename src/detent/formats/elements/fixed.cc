#include "detent/formats/elements/fixed.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/formats/elements/fixed.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/highway.h>

#include "detent/formats/elements/element_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {

/// clamp(round(x * 2^f), low, high) * 2^-f. Both multiplications are exact, except that x * 2^f may overflow,
/// which then saturates, or underflow to 0, which only `floor` must tell from a true 0. Clamping first is the
/// same, since the bounds are integers, and keeps Round within the range that all targets support. Of which
/// sign the code 0 comes differs between targets: + 0 leaves +0.
template <class D>
class FixedKernel {
  using V = hn::Vec<D>;
  using DI = hn::RebindToSigned<D>;
  using VI = hn::Vec<DI>;

 public:
  FixedKernel(D d, const FixedParameters& p, uint64_t /*first_index*/)
      : scale_(hn::Set(d, p.scale)),
        step_(hn::Set(d, p.step)),
        low_(hn::Set(d, p.low)),
        high_(hn::Set(d, p.high)),
        mask_(hn::Set(DI(), static_cast<int32_t>((uint64_t{1} << p.width) - 1))),
        sign_(hn::Set(DI(), p.is_signed ? static_cast<int32_t>(uint32_t{1} << (p.width - 1)) : 0)),
        floor_(p.floor),
        may_underflow_(p.scale < 1),
        is_unsigned_32_(!p.is_signed && p.width == 32) {}

  HWY_INLINE V Round(D d, V x, uint64_t /*index*/) const {
    return hn::IfThenElse(hn::IsNaN(x), x, hn::MulAdd(Code(d, x), step_, hn::Zero(d)));
  }

  /// Two's complement when signed, else plain binary. Codes of 2^31 and more, which only unsigned 32 bits
  /// have, are moved into the range of int32 and back.
  HWY_INLINE VI Encode(D d, V x, uint64_t /*index*/) const {
    const DI di;
    const V code = Code(d, x);
    if (!is_unsigned_32_) return hn::And(hn::ConvertTo(di, code), mask_);
    const V middle = hn::Set(d, 0x1p31F);
    const auto upper = hn::Ge(code, middle);
    const VI lower = hn::ConvertTo(di, hn::Sub(code, hn::IfThenElseZero(upper, middle)));
    return hn::Xor(lower, hn::BitCast(di, hn::IfThenElseZero(upper, hn::BitCast(d, hn::Set(di, kSignBit)))));
  }

  /// The nearest float32 to codes of more than 24 bits; Encode gives only those that float32 holds.
  HWY_INLINE V Decode(D d, VI code) const {
    const DI di;
    // (c ^ sign) - sign extends the sign.
    if (!is_unsigned_32_) return hn::Mul(hn::ConvertTo(d, hn::Sub(hn::Xor(code, sign_), sign_)), step_);
    // Both halves are exact, and their sum is rounded once.
    const VI upper = hn::BitCast(di, hn::ShiftRight<16>(hn::BitCast(DU(), code)));
    const V lower = hn::ConvertTo(d, hn::And(code, hn::Set(di, 0xFFFF)));
    const V whole = hn::Add(hn::Mul(hn::ConvertTo(d, upper), hn::Set(d, 0x1p16F)), lower);
    return hn::Mul(whole, step_);
  }

 private:
  using DU = hn::RebindToUnsigned<D>;
  static constexpr int32_t kSignBit = std::numeric_limits<int32_t>::min();

  /// As a whole number.
  HWY_INLINE V Code(D d, V x) const {
    const V scaled = hn::Mul(x, scale_);
    return floor_ ? hn::Floor(Clamp(may_underflow_ ? BelowZero(d, x, scaled) : scaled))
                  : hn::Round(Clamp(scaled));
  }

  HWY_INLINE V Clamp(V v) const { return hn::Min(hn::Max(v, low_), high_); }

  /// `scaled`, but a negative x that underflowed to 0 is -1/2, whose floor is right.
  HWY_INLINE V BelowZero(D d, V x, V scaled) const {
    const V zero = hn::Zero(d);
    return hn::IfThenElse(hn::And(hn::Lt(x, zero), hn::Eq(scaled, zero)), hn::Set(d, -0.5F), scaled);
  }

  V scale_, step_, low_, high_;
  VI mask_, sign_;
  bool floor_;
  bool may_underflow_;
  bool is_unsigned_32_;
};

ElementKernels<FixedParameters> FixedKernels() { return KernelsOf<FixedParameters, FixedKernel>(); }

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(FixedKernels);

ElementKernels<FixedParameters> FixedParameters::kernels() { return HWY_DYNAMIC_DISPATCH(FixedKernels)(); }

Fixed Fixed::qparams_from_range(std::span<const Interval> ranges, ScaleForm /*form*/) const {
  const auto [low, high] = format_detail::union_with_zero(ranges);
  constexpr int kMost = 96;
  int shift = kMost + 1;
  const auto hold = [&](double magnitude, double code) {
    if (magnitude > 0 && code > 0) shift = std::min(shift, format_detail::largest_shift(code, magnitude));
  };
  hold(static_cast<double>(high), high_code());
  hold(-static_cast<double>(low), -low_code());
  Fixed result = *this;
  if (shift <= kMost || low < 0 || high > 0) result.frac_width = std::clamp(shift, -kMost, kMost);
  return result;
}

std::vector<float> Fixed::values(const std::string&) const {
  std::vector<float> result;
  const auto last = static_cast<int64_t>(high_code());
  for (auto code = static_cast<int64_t>(low_code()); code <= last; ++code) {
    result.push_back(static_cast<float>(code) * power_of_two(-fraction_bits()));
  }
  return result;
}

// To nearest, codes round into [low, high] from [low - 1/2, high + 1/2]; a tie at an end is outside when the
// end is odd, because it then goes to the even code beyond. Downward, they come from [low, high + 1), the
// right end open.
Interval Fixed::unsaturated(const Parameters& /*parameters*/) const {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto odd = [](double code) { return std::fmod(code, 2.0) != 0.0; };
  const bool to_floor = rounding == Rounding::kFloor;
  const double low = to_floor ? low_code() : low_code() - 0.5;
  const double high = high_code() + (to_floor ? 1.0 : 0.5);
  float least = -round_down(-low);
  float greatest = round_down(high);
  if (!to_floor && odd(low_code()) && static_cast<double>(least) == low)
    least = std::nextafter(least, kInfinity);
  if ((to_floor || odd(high_code())) && static_cast<double>(greatest) == high) {
    greatest = std::nextafter(greatest, -kInfinity);
  }
  const float step = power_of_two(-fraction_bits());
  return {least * step, greatest * step};
}

FixedParameters Fixed::parameters() const {
  return {.scale = power_of_two(fraction_bits()),
          .step = power_of_two(-fraction_bits()),
          .low = round_toward_zero(low_code()),
          .high = round_toward_zero(high_code()),
          .floor = rounding == Rounding::kFloor,
          .width = width,
          .is_signed = is_signed};
}

double Fixed::low_code() const { return is_signed ? -std::ldexp(1.0, width - 1) : 0.0; }
double Fixed::high_code() const { return std::ldexp(1.0, is_signed ? width - 1 : width) - 1.0; }

}  // namespace detent
#endif  // HWY_ONCE

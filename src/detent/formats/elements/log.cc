#include "detent/formats/elements/log.h"

#include "detent/formats/elements/minifloat.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/formats/elements/log.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/highway.h>

#include "detent/formats/elements/element_loops-inl.h"
#include "detent/formats/elements/log-inl.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {

/// Float32 subnormals, which have no exponent, are taken 2^32 higher.
template <class D>
class LogKernel {
  using V = hn::Vec<D>;
  using DI = hn::RebindToSigned<D>;
  using VI = hn::Vec<DI>;

 public:
  LogKernel(D d, const LogParameters& p, uint64_t /*first_index*/)
      : smallest_(hn::Set(d, p.smallest)),
        largest_(hn::Set(d, p.largest)),
        first_(hn::Set(DI(), 127 + p.min_exponent)),
        sign_shift_(32 - p.width),
        subnormal_(p.smallest < power_of_two(-126)) {}

  HWY_INLINE V Round(D d, V x, uint64_t /*index*/) const {
    const V held = Held(x);
    const V scale = subnormal_ ? UpScale(d, held) : hn::Set(d, 1.0F);
    const V power = NearestPower(d, subnormal_ ? hn::Mul(held, scale) : held);
    const V rounded = subnormal_ ? hn::Mul(power, DownScale(d, held)) : power;
    return hn::IfThenElse(hn::IsNaN(x), x, hn::CopySignToAbs(rounded, Signed(d, x)));
  }

  /// Sign, then the exponent counted from the lowest.
  HWY_INLINE VI Encode(D d, V x, uint64_t /*index*/) const {
    const DI di;
    const V held = Held(x);
    const V power = NearestPower(d, subnormal_ ? hn::Mul(held, UpScale(d, held)) : held);
    VI exponent = hn::Sub(hn::ShiftRight<23>(hn::BitCast(di, power)), first_);
    if (subnormal_) {
      const auto small = hn::RebindMask(di, IsSmall(d, held));
      exponent = hn::Sub(exponent, hn::IfThenElseZero(small, hn::Set(di, kShift)));
    }
    const VI sign = hn::BitCast(di, hn::ShiftRightSame(hn::BitCast(DU(), Signed(d, x)), sign_shift_));
    return hn::Or(exponent, hn::And(sign, hn::Set(di, int32_t{1} << (31 - sign_shift_))));
  }

  HWY_INLINE V Decode(D d, VI code) const {
    const DI di;
    const VI exponent = hn::And(code, hn::Set(di, (int32_t{1} << (31 - sign_shift_)) - 1));
    VI biased = hn::Add(exponent, first_);
    const V sign = hn::BitCast(d, hn::ShiftLeftSame(code, sign_shift_));
    if (!subnormal_) return hn::CopySignToAbs(hn::BitCast(d, hn::ShiftLeft<23>(biased)), sign);
    const auto small = hn::Lt(biased, hn::Set(di, 127 - 64));
    biased = hn::Add(biased, hn::IfThenElseZero(small, hn::Set(di, kShift)));
    const V down =
        hn::IfThenElse(hn::RebindMask(d, small), hn::Set(d, power_of_two(-kShift)), hn::Set(d, 1.0F));
    return hn::CopySignToAbs(hn::Mul(hn::BitCast(d, hn::ShiftLeft<23>(biased)), down), sign);
  }

 private:
  using DU = hn::RebindToUnsigned<D>;
  static constexpr int kShift = 32;

  HWY_INLINE V Held(V x) const { return hn::Min(hn::Max(hn::Abs(x), smallest_), largest_); }
  /// -0 + 0 is +0.
  static HWY_INLINE V Signed(D d, V x) { return hn::Add(x, hn::Zero(d)); }
  static HWY_INLINE hn::Mask<D> IsSmall(D d, V magnitude) {
    return hn::Lt(magnitude, hn::Set(d, power_of_two(-64)));
  }
  static HWY_INLINE V UpScale(D d, V magnitude) {
    return hn::IfThenElse(IsSmall(d, magnitude), hn::Set(d, power_of_two(kShift)), hn::Set(d, 1.0F));
  }
  static HWY_INLINE V DownScale(D d, V magnitude) {
    return hn::IfThenElse(IsSmall(d, magnitude), hn::Set(d, power_of_two(-kShift)), hn::Set(d, 1.0F));
  }

  V smallest_, largest_;
  VI first_;  // exponent bits of the smallest
  int sign_shift_;
  bool subnormal_;
};

ElementKernels<LogParameters> LogKernels() { return KernelsOf<LogParameters, LogKernel>(); }

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(LogKernels);

ElementKernels<LogParameters> LogParameters::kernels() { return HWY_DYNAMIC_DISPATCH(LogKernels)(); }

Log Log::qparams_from_range(std::span<const Interval> ranges, ScaleForm /*form*/) const {
  return format_detail::with_bias_for_range(*this, std::ldexp(1.0, max_exponent()), (1 << (width - 1)) - 128,
                                            149, ranges);
}

void Log::validate(const std::string& where) const {
  check_exponent_bias(exponent_bias, bias(), (1 << (width - 1)) - 128, 149, where);
}

std::vector<float> Log::values(const std::string& /*where*/) const {
  std::vector<float> result;
  for (int e = max_exponent(); e >= -bias(); --e) result.push_back(-std::ldexp(1.0F, e));
  for (int e = -bias(); e <= max_exponent(); ++e) result.push_back(std::ldexp(1.0F, e));
  return result;
}

LogParameters Log::parameters() const {
  return {.smallest = std::ldexp(1.0F, -bias()),
          .largest = std::ldexp(1.0F, max_exponent()),
          .min_exponent = -bias(),
          .width = width};
}

Interval Log::unsaturated(const Parameters& parameters) const {
  constexpr float kBelowSqrt2 = 0x1.6A09E6p0F;  // the last float32 that rounds down
  const float edge = round_down(static_cast<double>(kBelowSqrt2) * static_cast<double>(parameters.largest));
  return {-edge, edge};
}

}  // namespace detent
#endif  // HWY_ONCE

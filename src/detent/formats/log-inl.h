// Per-target include guard
#if defined(DETENT_FORMATS_LOG_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DETENT_FORMATS_LOG_INL_H_
#undef DETENT_FORMATS_LOG_INL_H_
#else
#define DETENT_FORMATS_LOG_INL_H_
#endif

#include <hwy/highway.h>

#include "detent/formats/log.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {

/// Adding 2^23 - t to the bits of |x| carries into the exponent just when the mantissa bits are t or more; t
/// is that of the first float32 above sqrt(2). Float32 subnormals, which have no exponent, are taken 2^32
/// higher.
template <class D>
class LogKernel {
  using V = hn::Vec<D>;
  using DI = hn::RebindToSigned<D>;

 public:
  LogKernel(D d, const LogParameters& p)
      : smallest_(hn::Set(d, p.smallest)),
        largest_(hn::Set(d, p.largest)),
        subnormal_(p.smallest < power_of_two(-126)) {}

  V operator()(D d, V x, uint64_t /*index*/) const {
    const V held = hn::Min(hn::Max(hn::Abs(x), smallest_), largest_);
    const V rounded = subnormal_ ? RoundShifted(d, held) : Round(d, held);
    // -0 + 0 is +0.
    const V sign = hn::Add(x, hn::Zero(d));
    return hn::IfThenElse(hn::IsNaN(x), x, hn::CopySignToAbs(rounded, sign));
  }

 private:
  static V Round(D d, V magnitude) {
    const DI di;
    constexpr int32_t kFirstAbove = 0x3504F4;
    const auto carried = hn::Add(hn::BitCast(di, magnitude), hn::Set(di, 0x800000 - kFirstAbove));
    return hn::BitCast(d, hn::And(carried, hn::Set(di, 0x7F800000)));
  }

  static V RoundShifted(D d, V magnitude) {
    const auto small = hn::Lt(magnitude, hn::Set(d, power_of_two(-64)));
    const V one = hn::Set(d, 1.0F);
    const V up = hn::IfThenElse(small, hn::Set(d, power_of_two(32)), one);
    const V down = hn::IfThenElse(small, hn::Set(d, power_of_two(-32)), one);
    return hn::Mul(Round(d, hn::Mul(magnitude, up)), down);
  }

  V smallest_, largest_;
  bool subnormal_;
};

template <class D>
auto MakeKernel(D d, const LogParameters& parameters, uint64_t /*first_index*/) {
  return LogKernel<D>(d, parameters);
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DETENT_FORMATS_LOG_INL_H_

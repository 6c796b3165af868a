// Per-target include guard
#if defined(DETENT_FORMATS_FIXED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DETENT_FORMATS_FIXED_INL_H_
#undef DETENT_FORMATS_FIXED_INL_H_
#else
#define DETENT_FORMATS_FIXED_INL_H_
#endif

#include <hwy/highway.h>

#include "detent/formats/fixed.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {

/// clamp(round(x * 2^f), low, high) * 2^-f. Both multiplications are exact, except that x * 2^f may overflow,
/// which then saturates, or underflow to 0, which only `floor` must tell from a true 0. Clamping first is the
/// same, since the bounds are integers, and keeps Round within the range that all targets support. Of which
/// sign the code 0 comes differs between targets: + 0 leaves +0.
template <class D>
class FixedKernel {
  using V = hn::Vec<D>;

 public:
  FixedKernel(D d, const FixedParameters& p, uint64_t /*first_index*/)
      : scale_(hn::Set(d, p.scale)),
        step_(hn::Set(d, p.step)),
        low_(hn::Set(d, p.low)),
        high_(hn::Set(d, p.high)),
        floor_(p.floor),
        may_underflow_(p.scale < 1) {}

  V operator()(D d, V x, uint64_t /*index*/) const {
    const V scaled = hn::Mul(x, scale_);
    const V code = floor_ ? hn::Floor(Clamp(may_underflow_ ? BelowZero(d, x, scaled) : scaled))
                          : hn::Round(Clamp(scaled));
    return hn::IfThenElse(hn::IsNaN(x), x, hn::MulAdd(code, step_, hn::Zero(d)));
  }

 private:
  V Clamp(V v) const { return hn::Min(hn::Max(v, low_), high_); }

  /// `scaled`, but a negative x that underflowed to 0 is -1/2, whose floor is right.
  V BelowZero(D d, V x, V scaled) const {
    const V zero = hn::Zero(d);
    return hn::IfThenElse(hn::And(hn::Lt(x, zero), hn::Eq(scaled, zero)), hn::Set(d, -0.5F), scaled);
  }

  V scale_, step_, low_, high_;
  bool floor_;
  bool may_underflow_;
};

template <class D>
auto MakeKernel(D d, const FixedParameters& parameters, uint64_t first_index) {
  return FixedKernel<D>(d, parameters, first_index);
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DETENT_FORMATS_FIXED_INL_H_

// Per-target include guard
#if defined(DETENT_FORMATS_TERNARY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DETENT_FORMATS_TERNARY_INL_H_
#undef DETENT_FORMATS_TERNARY_INL_H_
#else
#define DETENT_FORMATS_TERNARY_INL_H_
#endif

#include <hwy/highway.h>

#include <limits>

#include "detent/formats/ternary.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {

/// sign(x) * alpha where |x| > delta, else 0. Nothing is above where alpha is 0: there is one zero, +0.
template <class D>
class TernaryKernel {
  using V = hn::Vec<D>;

 public:
  TernaryKernel(D d, const TernaryParameters& p)
      : delta_(hn::Set(d, p.alpha > 0 ? p.delta : std::numeric_limits<float>::infinity())),
        alpha_(hn::Set(d, p.alpha)) {}

  V operator()(D /*d*/, V x, uint64_t /*index*/) const {
    const V rounded = hn::IfThenElseZero(hn::Gt(hn::Abs(x), delta_), hn::CopySign(alpha_, x));
    return hn::IfThenElse(hn::IsNaN(x), x, rounded);
  }

 private:
  V delta_, alpha_;
};

template <class D>
auto MakeKernel(D d, const TernaryParameters& parameters, uint64_t /*first_index*/) {
  return TernaryKernel<D>(d, parameters);
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DETENT_FORMATS_TERNARY_INL_H_

// Per-target include guard
#if defined(DETENT_FORMATS_AFFINE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DETENT_FORMATS_AFFINE_INL_H_
#undef DETENT_FORMATS_AFFINE_INL_H_
#else
#define DETENT_FORMATS_AFFINE_INL_H_
#endif

#include <hwy/highway.h>

#include "detent/formats/affine.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {

/// Clamping before rounding is the same, since the bounds are integers, and keeps Round within the range that
/// all targets support. Of which sign the code 0 comes differs between targets: + 0 leaves +0.
template <class D>
class AffineKernel {
  using V = hn::Vec<D>;

 public:
  AffineKernel(D d, const AffineParameters& p)
      : scale_(hn::Set(d, p.scale)), low_(hn::Set(d, p.low)), high_(hn::Set(d, p.high)) {}

  V operator()(D d, V x, uint64_t /*index*/) const {
    const V code = hn::Round(hn::Min(hn::Max(hn::Div(x, scale_), low_), high_));
    return hn::IfThenElse(hn::IsNaN(x), x, hn::MulAdd(code, scale_, hn::Zero(d)));
  }

 private:
  V scale_, low_, high_;
};

template <class D>
auto MakeKernel(D d, const AffineParameters& parameters, uint64_t /*first_index*/) {
  return AffineKernel<D>(d, parameters);
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DETENT_FORMATS_AFFINE_INL_H_

// Per-target include guard
#if defined(DETENT_FORMATS_BINARY_RESIDUAL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DETENT_FORMATS_BINARY_RESIDUAL_INL_H_
#undef DETENT_FORMATS_BINARY_RESIDUAL_INL_H_
#else
#define DETENT_FORMATS_BINARY_RESIDUAL_INL_H_
#endif

#include <hwy/highway.h>

#include "detent/formats/binary_residual.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {

template <class D>
class BinaryResidualKernel {
  using V = hn::Vec<D>;

 public:
  BinaryResidualKernel(D /*d*/, const BinaryResidualParameters& p)
      : gammas_(p.gammas.data()), levels_(p.gammas.size()) {}

  V operator()(D d, V x, uint64_t /*index*/) const {
    V residual = x;
    V sum = hn::Zero(d);
    for (size_t level = 0; level < levels_; ++level) {
      const V gamma = hn::Set(d, gammas_[level]);
      const V term = hn::IfThenElse(hn::Ge(residual, hn::Zero(d)), gamma, hn::Neg(gamma));
      residual = hn::Sub(residual, term);
      sum = hn::Add(sum, term);
    }
    return hn::IfThenElse(hn::IsNaN(x), x, sum);
  }

 private:
  const float* gammas_;
  size_t levels_;
};

template <class D>
auto MakeKernel(D d, const BinaryResidualParameters& parameters, uint64_t /*first_index*/) {
  return BinaryResidualKernel<D>(d, parameters);
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DETENT_FORMATS_BINARY_RESIDUAL_INL_H_

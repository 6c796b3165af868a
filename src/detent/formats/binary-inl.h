// Per-target include guard
#if defined(DETENT_FORMATS_BINARY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DETENT_FORMATS_BINARY_INL_H_
#undef DETENT_FORMATS_BINARY_INL_H_
#else
#define DETENT_FORMATS_BINARY_INL_H_
#endif

#include <hwy/highway.h>

#include "detent/formats/binary.h"
#include "detent/formats/counter_random.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {

/// `high` where x >= 0, else `low`. Stochastic: with k drawn from the integers in [0, 2^24), P(k * 2^-24 < p)
/// = p for p = clamp((x + 1) / 2, 0, 1) a multiple of 2^-24, and the comparison is x > k * 2^-23 - 1, whose
/// right side float32 holds exactly.
template <class D>
class BinaryKernel {
  using V = hn::Vec<D>;
  using DU = hn::RebindToUnsigned<D>;
  using VU = hn::Vec<DU>;

 public:
  BinaryKernel(D d, const BinaryParameters& p, uint64_t first_index)
      : low_(hn::Set(d, p.low)),
        high_(hn::Set(d, p.high)),
        stochastic_(p.stochastic),
        key_(counter_key(p.seed, first_index >> 32)) {}

  V operator()(D d, V x, uint64_t index) const {
    const auto positive =
        stochastic_ ? hn::Gt(x, Level(d, static_cast<uint32_t>(index))) : hn::Ge(x, hn::Zero(d));
    return hn::IfThenElse(hn::IsNaN(x), x, hn::IfThenElse(positive, high_, low_));
  }

 private:
  static VU Mix(DU du, VU h) {
    h = hn::Mul(hn::Xor(h, hn::ShiftRight<16>(h)), hn::Set(du, 0x85EBCA6Bu));
    h = hn::Mul(hn::Xor(h, hn::ShiftRight<13>(h)), hn::Set(du, 0xC2B2AE35u));
    return hn::Xor(h, hn::ShiftRight<16>(h));
  }

  /// k * 2^-23 - 1 for the 24 upper bits k of the draw.
  V Level(D d, uint32_t index) const {
    const DU du;
    const hn::RebindToSigned<D> di;
    const VU counter = hn::Xor(hn::Add(hn::Iota(du, 0), hn::Set(du, index)), hn::Set(du, key_.first));
    const VU bits = Mix(du, hn::Add(Mix(du, counter), hn::Set(du, key_.second)));
    const V k = hn::ConvertTo(d, hn::BitCast(di, hn::ShiftRight<8>(bits)));
    return hn::Sub(hn::Mul(k, hn::Set(d, power_of_two(-23))), hn::Set(d, 1.0F));
  }

  V low_, high_;
  bool stochastic_;
  CounterKey key_;
};

template <class D>
auto MakeKernel(D d, const BinaryParameters& parameters, uint64_t first_index) {
  return BinaryKernel<D>(d, parameters, first_index);
}

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // DETENT_FORMATS_BINARY_INL_H_

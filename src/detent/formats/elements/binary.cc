#include "detent/formats/elements/binary.h"

#include "detent/formats/elements/counter_random.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/formats/elements/binary.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/highway.h>

#include "detent/formats/elements/element_loops-inl.h"

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
  using DI = hn::RebindToSigned<D>;
  using VI = hn::Vec<DI>;

 public:
  template <class At>
  HWY_INLINE BinaryKernel(D /*d*/, const BinaryParameters& p, uint64_t first_index, const At& at)
      : low_(at(0)), high_(at(1)), stochastic_(p.stochastic), key_(counter_key(p.seed, first_index >> 32)) {}

  HWY_INLINE V Round(D d, V x, uint64_t index) const {
    return hn::IfThenElse(hn::IsNaN(x), x, hn::IfThenElse(IsHigh(d, x, index), high_, low_));
  }

  /// 1 for +1, unless that is 0 as well.
  HWY_INLINE VI Encode(D d, V x, uint64_t index) const {
    const DI di;
    const auto high = hn::And(IsHigh(d, x, index), hn::Gt(high_, hn::Zero(d)));
    return hn::IfThenElseZero(hn::RebindMask(di, high), hn::Set(di, 1));
  }

  HWY_INLINE V Decode(D d, VI code) const {
    return hn::IfThenElse(hn::RebindMask(d, hn::Eq(code, hn::Zero(DI()))), low_, high_);
  }

 private:
  HWY_INLINE hn::Mask<D> IsHigh(D d, V x, uint64_t index) const {
    return stochastic_ ? hn::Gt(x, Level(d, static_cast<uint32_t>(index))) : hn::Ge(x, hn::Zero(d));
  }

  static HWY_INLINE VU Mix(DU du, VU h) {
    h = hn::Mul(hn::Xor(h, hn::ShiftRight<16>(h)), hn::Set(du, 0x85EBCA6Bu));
    h = hn::Mul(hn::Xor(h, hn::ShiftRight<13>(h)), hn::Set(du, 0xC2B2AE35u));
    return hn::Xor(h, hn::ShiftRight<16>(h));
  }

  /// k * 2^-23 - 1 for the 24 upper bits k of the draw.
  HWY_INLINE V Level(D d, uint32_t index) const {
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

ElementKernels<BinaryParameters> BinaryKernels() { return KernelsOf<BinaryParameters, BinaryKernel>(); }

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(BinaryKernels);

ElementKernels<BinaryParameters> BinaryParameters::kernels() { return HWY_DYNAMIC_DISPATCH(BinaryKernels)(); }

const char* Binary::channel_conflict() const {
  if (scaling == BinaryScaling::kNone) return "without scaling, binary derives nothing from the data";
  return scaling == BinaryScaling::kPerTensor ? "scaling = \"per_tensor\" says otherwise" : nullptr;
}

std::vector<float> Binary::values(const std::string& where) const {
  if (scaling != BinaryScaling::kNone) fail("{}: the values depend on the data, because of scaling", where);
  return {bipolar ? -1.0F : 0.0F, 1.0F};
}

BinaryParameters Binary::parameters(const Group& group, uint64_t seed) const {
  const float alpha = scaling == BinaryScaling::kNone ? 1.0F : static_cast<float>(group.magnitudes().mean());
  return scaled_by(alpha, seed);
}

std::vector<ParameterStream> Binary::streams() const {
  if (scaling == BinaryScaling::kNone) return {};
  return {{"scales", DType::kFloat32}};
}

void Binary::store(const Parameters& group, double* numbers) const {
  if (scaling != BinaryScaling::kNone) *numbers = static_cast<double>(group.high);
}

BinaryParameters Binary::stored_parameters(const double* numbers) const {
  return scaled_by(scaling == BinaryScaling::kNone ? 1.0F : static_cast<float>(*numbers), 0);
}

BinaryParameters Binary::scaled_by(float alpha, uint64_t seed) const {
  const float low = bipolar ? 0 - alpha : 0.0F;  // +0 where alpha is 0
  return {.low = low, .high = alpha, .stochastic = stochastic, .seed = seed};
}

Interval Binary::unsaturated(const Parameters& group) const { return {group.low, group.high}; }

}  // namespace detent
#endif  // HWY_ONCE

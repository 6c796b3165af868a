#include "detent/formats/elements/ternary.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/formats/elements/ternary.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/highway.h>

#include "detent/formats/elements/element_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {

/// sign(x) * alpha where |x| > delta, else 0.
template <class D>
class TernaryKernel {
  using V = hn::Vec<D>;
  using DI = hn::RebindToSigned<D>;
  using VI = hn::Vec<DI>;

 public:
  template <class At>
  HWY_INLINE TernaryKernel(D /*d*/, const TernaryParameters& /*p*/, uint64_t /*first_index*/, const At& at)
      : delta_(at(0)), alpha_(at(1)) {}

  HWY_INLINE V Round(D /*d*/, V x, uint64_t /*index*/) const {
    const V rounded = hn::IfThenElseZero(hn::Gt(hn::Abs(x), delta_), hn::CopySign(alpha_, x));
    return hn::IfThenElse(hn::IsNaN(x), x, rounded);
  }

  /// 0, 1 and 3 for 0, +1 and -1: two's complement of two bits.
  HWY_INLINE VI Encode(D /*d*/, V x, uint64_t /*index*/) const {
    const DI di;
    const auto above = hn::RebindMask(di, hn::Gt(hn::Abs(x), delta_));
    const VI negative = hn::And(hn::BroadcastSignBit(hn::BitCast(di, x)), hn::Set(di, 2));
    return hn::IfThenElseZero(above, hn::Or(negative, hn::Set(di, 1)));
  }

  /// 2 as 3.
  HWY_INLINE V Decode(D d, VI code) const {
    const DI di;
    const VI sign = hn::ShiftLeft<30>(hn::And(code, hn::Set(di, 2)));
    const V value = hn::Xor(alpha_, hn::BitCast(d, sign));
    return hn::IfThenZeroElse(hn::RebindMask(d, hn::Eq(code, hn::Zero(di))), value);
  }

 private:
  V delta_, alpha_;
};

ElementKernels<TernaryParameters> TernaryKernels() { return KernelsOf<TernaryParameters, TernaryKernel>(); }

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(TernaryKernels);

ElementKernels<TernaryParameters> TernaryParameters::kernels() {
  return HWY_DYNAMIC_DISPATCH(TernaryKernels)();
}

Ternary Ternary::qparams_from_range(std::span<const Interval> ranges, ScaleForm /*form*/) const {
  Ternary result = *this;
  result.threshold = result.mean = result.median = std::nullopt;
  // The smallest, where the data is all 0.
  result.max = std::max(std::numeric_limits<float>::denorm_min(),
                        static_cast<float>(format_detail::largest_magnitude(ranges)));
  return result;
}

std::vector<float> Ternary::values(const std::string& where) const {
  if (scaling_factor) fail("{}: the values depend on the data, because scaling_factor is true", where);
  return {-1.0F, 0.0F, 1.0F};
}

std::optional<Ternary::Threshold> Ternary::given_threshold() const {
  const auto from = [](double factor, float statistic, const char* key, const char* formula,
                       const char* advice) {
    return Threshold{factor * static_cast<double>(statistic), key, statistic, formula, advice};
  };
  if (threshold) return from(1, *threshold, "threshold", "threshold", "give a positive one");
  if (mean) return from(0.75, *mean, "mean", "0.75 * mean", "collect abs_mean over data that is not all 0");
  if (max) {
    return from(0.05, *max, "max", "0.05 * max",
                "collect range_min_max with abs = true over data that is not all 0");
  }
  if (median) {
    return from(
        0.75, *median, "median", "0.75 * median",
        "half of the values or more are 0: collect abs_mean (key \"mean\") or range_min_max with abs = true "
        "(key \"max\")");
  }
  return std::nullopt;
}

void Ternary::validate(const std::string& where) const {
  for (const auto& [key, statistic] :
       {std::pair("threshold", threshold), {"mean", mean}, {"median", median}, {"max", max}}) {
    if (statistic && !std::isfinite(*statistic)) {
      fail("{}: key \"{}\": got {}, expected a finite number", where, key,
           float_text(static_cast<double>(*statistic)));
    }
  }
  const std::optional<Threshold> given = given_threshold();
  if (!given || (given->value > 0 && given->value <= std::numeric_limits<double>::max())) return;
  fail("{}: key \"{}\": got {}, which gives the threshold {} = {}, expected one above 0 and finite; {}",
       where, given->key, float_text(static_cast<double>(given->statistic)), given->formula,
       float_text(given->value), given->advice);
}

// |x| > delta is decided as in exact arithmetic: for float32 x it holds for a double delta just when it holds
// for the largest float32 not above delta.
Ternary::Parameters Ternary::parameters(const Group& group, uint64_t /*seed*/) const {
  const std::optional<Threshold> given = given_threshold();
  const double exact = given ? given->value : 0.75 * group.magnitudes().mean();
  if (!(exact > 0) && group.group_count() == 1) {
    fail(
        "ternary: the mean |x| of the tensor itself ({} elements) is 0, so the threshold 0.75 * mean is not "
        "above 0; give \"threshold\", or collect abs_mean (key \"mean\") or range_min_max with abs = true "
        "(key \"max\") over data that is not all 0",
        group.element_count());
  }
  const float delta = round_down(exact);
  const float alpha = scaling_factor ? static_cast<float>(group.magnitudes_above(delta).mean()) : 1.0F;
  return {.delta = delta, .alpha = alpha};
}

std::vector<ParameterStream> Ternary::streams() const {
  if (!scaling_factor) return {};
  return {{"scales", DType::kFloat32}};
}

void Ternary::store(const Parameters& group, double* numbers) const {
  if (scaling_factor) *numbers = static_cast<double>(group.alpha);
}

TernaryParameters Ternary::stored_parameters(const double* numbers) const {
  return {.delta = 0, .alpha = scaling_factor ? static_cast<float>(*numbers) : 1.0F};
}

Interval Ternary::unsaturated(const Parameters& group) const {
  const float largest = std::max(group.alpha, group.delta);
  return {-largest, largest};
}

}  // namespace detent
#endif  // HWY_ONCE

#include "detent/formats/elements/affine.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "detent/formats/elements/affine.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h
#include <hwy/highway.h>

#include "detent/formats/elements/element_loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace detent::HWY_NAMESPACE {

/// Clamping before rounding is the same, since the bounds are integers, and keeps Round within the range that
/// all targets support. Of which sign the code 0 comes differs between targets: + 0 leaves +0.
template <class D>
class AffineKernel {
  using V = hn::Vec<D>;
  using DI = hn::RebindToSigned<D>;
  using VI = hn::Vec<DI>;

 public:
  template <class At>
  HWY_INLINE AffineKernel(D /*d*/, const AffineParameters& p, uint64_t /*first_index*/, const At& at)
      : scale_(at(0)),
        low_(at(1)),
        high_(at(2)),
        zero_point_(at(3)),
        mask_(hn::Set(DI(), (int32_t{1} << p.width) - 1)),
        sign_(hn::Set(DI(), p.is_signed ? int32_t{1} << (p.width - 1) : 0)) {}

  HWY_INLINE V Round(D d, V x, uint64_t /*index*/) const {
    return hn::IfThenElse(hn::IsNaN(x), x, hn::MulAdd(Code(x), scale_, hn::Zero(d)));
  }

  /// The integer, zero point included: two's complement when signed, else plain binary. The sums are exact.
  HWY_INLINE VI Encode(D /*d*/, V x, uint64_t /*index*/) const {
    const DI di;
    return hn::And(hn::ConvertTo(di, hn::Add(Code(x), zero_point_)), mask_);
  }

  HWY_INLINE V Decode(D d, VI code) const {
    const VI integer = hn::Sub(hn::Xor(code, sign_), sign_);  // with its sign extended
    return hn::Mul(hn::Sub(hn::ConvertTo(d, integer), zero_point_), scale_);
  }

 private:
  /// Less the zero point.
  HWY_INLINE V Code(V x) const { return hn::Round(hn::Min(hn::Max(hn::Div(x, scale_), low_), high_)); }

  V scale_, low_, high_, zero_point_;
  VI mask_, sign_;
};

ElementKernels<AffineParameters> AffineKernels() { return KernelsOf<AffineParameters, AffineKernel>(); }

}  // namespace detent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace detent {

HWY_EXPORT(AffineKernels);

ElementKernels<AffineParameters> AffineParameters::kernels() { return HWY_DYNAMIC_DISPATCH(AffineKernels)(); }

void Affine::validate(const std::string& where) const {
  if (symmetric && !is_signed) {
    fail("{}: key \"symmetric\": got true, expected false where signed = false", where);
  }
  if (!zero_point.empty() && zero_point.size() != std::max<size_t>(scale.size(), 1)) {
    fail("{}: key \"zero_point\": got {} values, expected as many as \"scale\" has, {}", where,
         zero_point.size(), scale.size());
  }
  if (scale.empty() && !zero_point.empty()) {
    fail("{}: key \"zero_point\": got {}, expected \"scale\" beside it", where, zero_point.front());
  }
  for (const int zero : zero_point) {
    if (zero >= low_code() && zero <= high_code()) continue;
    fail("{}: key \"zero_point\": got {}, expected at least {} and at most {}", where, zero, low_code(),
         high_code());
  }
  if (zero_point.empty() && !scale.empty() && low_code() > 0) {
    fail("{}: key \"zero_point\": got none, which stands for 0, expected at least {}", where, low_code());
  }
}

std::vector<float> Affine::values(const std::string& where) const {
  if (scale.size() != 1) fail("{}: the values depend on the data: expected one \"scale\"", where);
  const Parameters held = of(scale.front(), zero_point.empty() ? 0 : zero_point.front());
  std::vector<float> result;
  const auto high = static_cast<int>(held.high);
  for (auto code = static_cast<int>(held.low); code <= high; ++code)
    result.push_back(static_cast<float>(code) * held.scale);
  return result;
}

Affine Affine::qparams_from_range(std::span<const Interval> ranges, ScaleForm form) const {
  Affine result = *this;
  result.scale.clear();
  result.zero_point.clear();
  for (const Interval& range : ranges) {
    const Parameters held = of_range(format_detail::union_with_zero({&range, 1}), form);
    result.scale.push_back(held.scale);
    if (!symmetric) result.zero_point.push_back(held.zero_point);
  }
  return result;
}

Affine::Parameters Affine::parameters(const Group& group, uint64_t /*seed*/) const {
  if (scale.empty()) return of_range(group.range_with_zero());
  if (scale.size() > 1 && static_cast<int64_t>(scale.size()) != group.group_count()) {
    fail("affine: key \"scale\": got {} values, expected one, or one for each channel or group, {}",
         scale.size(), group.group_count());
  }
  const size_t index = scale.size() == 1 ? 0 : static_cast<size_t>(group.index());
  return of(scale[index], zero_point.empty() ? 0 : zero_point[index]);
}

// In double, rounded to float32 once. A scale that underflows becomes the smallest one.
Affine::Parameters Affine::of_range(Interval range, ScaleForm form) const {
  const auto low = static_cast<double>(range.low);
  const auto high = static_cast<double>(range.high);
  const double exact =
      symmetric ? std::max(-low, high) / high_code() : (high - low) / (high_code() - low_code());
  if (exact == 0) return of(1.0F, std::clamp(0, low_code(), high_code()));
  float step = std::max(static_cast<float>(exact), std::numeric_limits<float>::denorm_min());
  if (form == ScaleForm::kPowerOfTwo) step = format_detail::power_of_two_not_below(exact);
  if (symmetric) return of(step, 0);
  // Divided in float32, as DynamicQuantizeLinear does: the zero of [-x, x] is in the middle of two codes.
  const double zero = std::nearbyint(low_code() - static_cast<double>(range.low / step));
  return of(step, static_cast<int>(std::clamp<double>(zero, low_code(), high_code())));
}

Affine::Parameters Affine::of(float group_scale, int group_zero_point) const {
  constexpr float kMax = std::numeric_limits<float>::max();
  const double last = std::floor(static_cast<double>(kMax) / static_cast<double>(group_scale));
  const auto held = [&](int code) { return std::clamp<double>(code - group_zero_point, -last, last); };
  const double low = held(low_code());
  const double high = held(high_code());
  return {.scale = group_scale,
          .low = static_cast<float>(low),
          .high = static_cast<float>(high),
          .zero_point = group_zero_point,
          .width = width,
          .is_signed = is_signed};
}

Interval Affine::unsaturated(const Parameters& group) const {
  constexpr float kMax = std::numeric_limits<float>::max();
  // Whether (code + 1/2) * scale still rounds to `code` depends on its parity and on the rounding of the
  // division: the last float32 that does is at most a few steps off.
  const auto edge = [&](double code) {
    const double sign = code < 0 ? -1 : 1;
    float x = round_down(
        std::min((std::fabs(code) + 0.5) * static_cast<double>(group.scale), static_cast<double>(kMax)));
    const auto leaves = [&](float at) {
      return std::nearbyint(static_cast<float>(sign) * at / group.scale) * static_cast<float>(sign) >
             static_cast<float>(sign * code);
    };
    while (x < kMax && !leaves(std::nextafter(x, kMax))) x = std::nextafter(x, kMax);
    while (leaves(x)) x = std::nextafter(x, -kMax);
    return static_cast<float>(sign) * x;
  };
  return {group.low == 0 ? -edge(0) : edge(static_cast<double>(group.low)),
          edge(static_cast<double>(group.high))};
}

std::vector<ParameterStream> Affine::streams() const {
  const ParameterStream scales{"scales", DType::kFloat32, 1, kAboveZero};
  if (zero_points_are_zero()) return {scales};
  const Between codes{static_cast<double>(low_code()), static_cast<double>(high_code())};
  return {scales, {"zero_points", DType::kInt32, 1, codes}};
}

void Affine::store(const Parameters& group, double* numbers) const {
  numbers[0] = static_cast<double>(group.scale);
  if (!zero_points_are_zero()) numbers[1] = group.zero_point;
}

AffineParameters Affine::stored_parameters(const double* numbers) const {
  return of(static_cast<float>(numbers[0]), zero_points_are_zero() ? 0 : static_cast<int>(numbers[1]));
}

}  // namespace detent
#endif  // HWY_ONCE
